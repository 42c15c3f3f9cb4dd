// Processes that want all of the machine's time.
#ifndef HUGEPOOL_DAEMON_SYS_TESTING_BUSY_CHILDREN_H_
#define HUGEPOOL_DAEMON_SYS_TESTING_BUSY_CHILDREN_H_

#include <sys/types.h>

#include <vector>

namespace hugepool::sys::testing {

// So many on each CPU that this process may use, from its making to its end; of
// the normal class. They end with the thread that made them too.
class BusyChildren {
 public:
  explicit BusyChildren(int per_cpu);
  BusyChildren(const BusyChildren&) = delete;
  BusyChildren& operator=(const BusyChildren&) = delete;
  ~BusyChildren();

  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace hugepool::sys::testing

#endif  // HUGEPOOL_DAEMON_SYS_TESTING_BUSY_CHILDREN_H_
