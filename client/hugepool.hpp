// The C++ layer over the C interface of hugepool.h: handles that end
// themselves, and results instead of out-parameters. Header only, C++17, no
// exceptions. Whatever is not said here (threads, fork, errors) is as there.
//
//   auto client = hugepool::Client::Connect();
//   if (!client) return Complain(client.error());
//   auto lease = client->Acquire(
//       hugepool::Request().Segment(1ull << 30).Wait(std::chrono::seconds(5)));
//   if (!lease) return Complain(lease.error());
//   std::memset(lease->segment(0).data, 1, lease->segment(0).size);
//   // The lease ends with its object, or with lease->Release().
#ifndef HUGEPOOL_CLIENT_HUGEPOOL_HPP_
#define HUGEPOOL_CLIENT_HUGEPOOL_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/hugepool.h"

namespace hugepool {
// Inline and named after the interface's major version, so that programs built
// against different ones can be linked together.
inline namespace api1 {

// A failure, with the C interface's fields. Empty (code HP_OK) means none.
class Error {
 public:
  Error() : raw_ HP_ERROR_INIT {}

  hp_code code() const { return static_cast<hp_code>(raw_.code); }
  hp_reason reason() const { return static_cast<hp_reason>(raw_.reason); }
  bool retryable() const { return raw_.retryable != 0; }
  int system_errno() const { return raw_.system_errno; }
  std::uint64_t wanted_bytes() const { return raw_.wanted_bytes; }
  std::uint64_t available_bytes() const { return raw_.available_bytes; }
  const char* message() const { return raw_.message; }
  // What to do about it; can be empty.
  const char* hint() const { return raw_.hint; }

  // To be filled in by a function of the C interface.
  hp_error* raw() { return &raw_; }

 private:
  hp_error raw_;
};

// A T or the Error why there is none. Asking for the wrong one aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit
  Result(const Error& error) : error_(error) {}  // NOLINT: implicit

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }

  T& operator*() & { return Value(); }
  T&& operator*() && { return std::move(Value()); }
  T* operator->() { return &Value(); }
  T&& take() { return std::move(Value()); }

  const Error& error() const {
    if (ok()) std::abort();
    return error_;
  }

 private:
  T& Value() {
    if (!ok()) std::abort();
    return *value_;
  }
  std::optional<T> value_;
  Error error_;
};

// Success, or the Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(const Error& error) : error_(error), ok_(false) {}  // NOLINT: implicit

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const {
    if (ok_) std::abort();
    return error_;
  }

 private:
  Error error_;
  bool ok_ = true;
};

// A stretch of memory of a lease; points into it. data is nullptr where the
// request said NoMap.
struct MemorySegment {
  void* data = nullptr;
  std::size_t size = 0;  // bytes, as granted
  std::size_t page_size = 0;
};

// A part of a segment, in whole pages.
struct MemoryRange {
  std::uint64_t offset = 0;  // within the segment
  std::uint64_t size = 0;    // bytes
  std::uint32_t segment = 0;
};

// Where a segment's memory should be; see Request for ways to make one.
struct Where {
  hp_placement placement = HP_PLACEMENT_ANY;
  std::vector<std::uint32_t> nodes;
};

// What to ask for. A value that can be kept and used again.
class Request {
 public:
  static Where Bind(std::vector<std::uint32_t> nodes) {
    return {HP_PLACEMENT_BIND, std::move(nodes)};
  }
  static Where Prefer(std::vector<std::uint32_t> nodes) {
    return {HP_PLACEMENT_PREFER, std::move(nodes)};
  }
  static Where Interleave(std::vector<std::uint32_t> nodes = {}) {
    return {HP_PLACEMENT_INTERLEAVE, std::move(nodes)};
  }
  // The node that the thread runs on which will call Acquire; where that has no
  // memory, the nearest that has.
  static Where Local() { return Prefer({HP_NODE_LOCAL}); }

  // Adds a segment. page_sizes: in order of preference; none: any.
  // max_extents 1: with one descriptor.
  Request& Segment(std::uint64_t bytes, Where where = {},
                   std::vector<std::uint64_t> page_sizes = {},
                   std::uint32_t max_extents = 0,
                   std::uint64_t hot_offset = 0) {
    segments_.push_back({bytes, std::move(where), std::move(page_sizes),
                         max_extents, hot_offset, {}, 0});
    return *this;
  }
  // The segment added last begins as a copy of another lease of the same domain
  // (Lease::id()), from `offset` in its segments laid end to end. A snapshot if
  // nobody writes to it until Acquire returns.
  Request& CopyFrom(std::string lease_id, std::uint64_t offset = 0) {
    if (segments_.empty()) return *this;
    segments_.back().copy_from = std::move(lease_id);
    segments_.back().copy_offset = offset;
    return *this;
  }
  Request& Wait(std::chrono::milliseconds limit) {
    options_.max_wait_ms = Milliseconds(limit);
    return *this;
  }
  // The memory lives as long as a descriptor or mapping of it.
  Request& LivesWithMemory() {
    options_.lifetime = HP_LIFETIME_MEMORY;
    return *this;
  }
  // The memory lives until released by name, or until its time has passed.
  Request& Named(std::string name, std::chrono::milliseconds time_to_live =
                                       std::chrono::milliseconds(0)) {
    options_.lifetime = HP_LIFETIME_NAMED;
    options_.time_to_live_ms = Milliseconds(time_to_live);
    name_ = std::move(name);
    return *this;
  }
  // HP_REQUEST_*, added to those that are set.
  Request& Flags(std::uint32_t flags) {
    options_.flags |= flags;
    return *this;
  }
  Request& Label(std::string key, std::string value) {
    labels_.emplace_back(std::move(key), std::move(value));
    return *this;
  }

 private:
  friend class Client;
  struct OneSegment {
    std::uint64_t bytes;
    Where where;
    std::vector<std::uint64_t> page_sizes;
    std::uint32_t max_extents;
    std::uint64_t hot_offset;
    std::string copy_from;  // "": zeros
    std::uint64_t copy_offset;
  };
  struct Free {
    void operator()(hp_request* r) const { hp_request_free(r); }
  };
  using Handle = std::unique_ptr<hp_request, Free>;

  static std::uint64_t Milliseconds(std::chrono::milliseconds d) {
    return d.count() > 0 ? static_cast<std::uint64_t>(d.count()) : 0;
  }
  // The handle of the C interface, or an error in `error`.
  Handle Build(Error* error) const {
    hp_request_options options = options_;
    options.name = name_.empty() ? nullptr : name_.c_str();
    hp_request* made = nullptr;
    if (hp_request_new(&options, &made, error->raw()) != HP_OK) return nullptr;
    Handle request(made);
    for (const OneSegment& s : segments_) {
      hp_segment_options o = HP_SEGMENT_OPTIONS_INIT;
      o.bytes = s.bytes;
      o.hot_offset = s.hot_offset;
      o.page_sizes = s.page_sizes.data();
      o.page_size_count = s.page_sizes.size();
      o.nodes = s.where.nodes.data();
      o.node_count = s.where.nodes.size();
      o.placement = s.where.placement;
      o.max_extents = s.max_extents;
      o.copy_from = s.copy_from.empty() ? nullptr : s.copy_from.c_str();
      o.copy_offset = s.copy_offset;
      if (hp_request_add_segment(request.get(), &o, error->raw()) != HP_OK) {
        return nullptr;
      }
    }
    for (const auto& [key, value] : labels_) {
      if (hp_request_add_label(request.get(), key.c_str(), value.c_str(),
                               error->raw()) != HP_OK) {
        return nullptr;
      }
    }
    return request;
  }

  hp_request_options options_ = HP_REQUEST_OPTIONS_INIT;
  std::string name_;
  std::vector<OneSegment> segments_;
  std::vector<std::pair<std::string, std::string>> labels_;
};

// Memory that was leased. Move-only. Its end releases the lease, except for
// NAMED ones, which stay (see Forget and Release).
class Lease {
 public:
  Lease(Lease&&) = default;
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      End();
      named_ = other.named_;
      handle_ = std::move(other.handle_);
    }
    return *this;
  }
  ~Lease() { End(); }

  // Unmaps and ends the lease, a NAMED one too. The object is empty then.
  Result<void> Release() {
    Error error;
    if (hp_release(handle_.release(), error.raw()) != HP_OK) return error;
    return {};
  }
  // Gives up parts of the lease, which goes on: all of them or none. This
  // process cannot touch them any more (hp_release_ranges).
  Result<void> ReleaseRanges(const std::vector<MemoryRange>& ranges) {
    std::vector<hp_range> list;
    list.reserve(ranges.size());
    for (const MemoryRange& r : ranges) {
      hp_range range = HP_RANGE_INIT;
      range.offset = r.offset;
      range.bytes = r.size;
      range.segment = r.segment;
      list.push_back(range);
    }
    Error error;
    if (hp_release_ranges(handle_.get(), list.data(), list.size(),
                          error.raw()) != HP_OK) {
      return error;
    }
    return {};
  }
  // Unmaps without ending the lease. The object is empty then.
  void Forget() { hp_lease_forget(handle_.release()); }

  // The rest needs a lease that is not empty.
  const char* id() const { return hp_lease_id(handle_.get()); }
  hp_standing standing() const { return hp_lease_standing(handle_.get()); }
  std::chrono::milliseconds waited() const {
    return std::chrono::milliseconds(hp_lease_waited_ms(handle_.get()));
  }
  std::size_t segment_count() const {
    return hp_lease_segment_count(handle_.get());
  }
  // Empty where there is no such segment.
  MemorySegment segment(std::size_t index) const {
    hp_segment_info info = HP_SEGMENT_INFO_INIT;
    if (hp_lease_segment(handle_.get(), index, &info) != HP_OK) return {};
    return {info.address, static_cast<std::size_t>(info.bytes),
            static_cast<std::size_t>(info.page_size)};
  }
  std::size_t extent_count() const {
    return hp_lease_extent_count(handle_.get());
  }
  // fd is -1 where there is no such extent.
  hp_extent_info extent(std::size_t index) const {
    hp_extent_info info = HP_EXTENT_INFO_INIT;
    hp_lease_extent(handle_.get(), index, &info);
    return info;
  }

 private:
  friend class Client;
  struct Drop {
    void operator()(hp_lease* l) const { hp_lease_forget(l); }
  };
  Lease(hp_lease* handle, bool named) : handle_(handle), named_(named) {}
  void End() {
    if (handle_ == nullptr) return;
    if (named_) {
      hp_lease_forget(handle_.release());
    } else {
      // The daemon sees to it by itself where it cannot be told.
      hp_release(handle_.release(), nullptr);
    }
  }

  std::unique_ptr<hp_lease, Drop> handle_;
  bool named_;
};

// A connection to the daemon. Move-only; its functions may be called from any
// number of threads at a time.
class Client {
 public:
  // `dir` empty: $HUGEPOOL_SOCKET_DIR or /run/hugepool.
  static Result<Client> Connect(const std::string& dir = "") {
    const hp_connect_options options = HP_CONNECT_OPTIONS_INIT;
    return Connect(dir, options);
  }
  static Result<Client> Connect(const std::string& dir,
                                const hp_connect_options& options) {
    Error error;
    hp_client* client = nullptr;
    if (hp_connect_with(dir.empty() ? nullptr : dir.c_str(), &options, &client,
                        error.raw()) != HP_OK) {
      return error;
    }
    return Client(client);
  }

  Result<Lease> Acquire(const Request& request) {
    Error error;
    const Request::Handle built = request.Build(&error);
    if (built == nullptr) return error;
    hp_lease* lease = nullptr;
    if (hp_acquire(handle_.get(), built.get(), &lease, error.raw()) != HP_OK) {
      return error;
    }
    return Lease(lease, request.options_.lifetime == HP_LIFETIME_NAMED);
  }
  Result<Lease> Attach(const std::string& name, std::uint32_t flags = 0) {
    Error error;
    hp_lease* lease = nullptr;
    if (hp_attach(handle_.get(), name.c_str(), flags, &lease, error.raw()) !=
        HP_OK) {
      return error;
    }
    return Lease(lease, true);
  }
  Result<void> ReleaseName(const std::string& name) {
    Error error;
    if (hp_release_name(handle_.get(), name.c_str(), error.raw()) != HP_OK) {
      return error;
    }
    return {};
  }

 private:
  struct Close {
    void operator()(hp_client* c) const { hp_close(c); }
  };
  explicit Client(hp_client* handle) : handle_(handle) {}

  std::unique_ptr<hp_client, Close> handle_;
};

}  // namespace api1
}  // namespace hugepool

#endif  // HUGEPOOL_CLIENT_HUGEPOOL_HPP_
