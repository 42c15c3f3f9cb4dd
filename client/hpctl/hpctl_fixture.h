// hpctl as a function against a fake daemon, for tests.
#ifndef HUGEPOOL_CLIENT_HPCTL_HPCTL_FIXTURE_H_
#define HUGEPOOL_CLIENT_HPCTL_HPCTL_FIXTURE_H_

#include <sstream>
#include <string>
#include <vector>

#include "client/hpctl/hpctl.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/test_dir.h"
#include "gtest/gtest.h"

namespace hugepool::hpctl {

class HpctlFixture : public ::testing::Test {
 protected:
  HpctlFixture() : daemon_({.dir = dir_.path(), .admin = true}) {
    daemon_.Start();
  }

  // With --socket in front. Output is in out_ and err_.
  int Run(std::vector<std::string> args) {
    args.insert(args.begin(), {"--socket", dir_.path()});
    std::ostringstream out;
    std::ostringstream err;
    const int code = RunHpctl(args, out, err);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  hugepool::testing::TestDir dir_;
  hugepool::testing::FakeDaemon daemon_;
  std::string out_;
  std::string err_;
};

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_HPCTL_FIXTURE_H_
