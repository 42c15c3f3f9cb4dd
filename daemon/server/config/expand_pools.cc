#include "daemon/server/config/expand_pools.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_join.h"
#include "daemon/base/errno_status.h"
#include "daemon/pool/shape_plan.h"
#include "daemon/server/config/config_errors.h"
#include "daemon/server/config/words.h"

namespace hugepool::server {
namespace {

Origin Below(const Origin& at, std::string_view key) {
  Origin below = at;
  Append(&below.key, ".", key);
  return below;
}

// `percent` of `pages`, rounded up: a share of something is never nothing.
PageCount Share(PageCount pages, Percent percent) {
  const uint64_t n = pages.value();
  return PageCount(n / 100 * percent.value +
                   (n % 100 * percent.value + 99) / 100);
}

PageCount RoundUp(PageSize size, Bytes bytes) {
  return size.Ceil(bytes).value_or(size.Floor(bytes));
}

PageCount Resolve(const PoolTarget& target, const HostPages& pages) {
  if (const Bytes* bytes = std::get_if<Bytes>(&target)) {
    return RoundUp(pages.size, *bytes);
  }
  if (const Percent* percent = std::get_if<Percent>(&target)) {
    // Rounded down: one page of three is not 80 % of them, but it is there.
    return PageCount(pages.total.value() / 100 * percent->value +
                     pages.total.value() % 100 * percent->value / 100);
  }
  return pages.available;
}

PageCount Resolve(const Watermark& mark, PageCount target, PageSize size) {
  if (const Bytes* bytes = std::get_if<Bytes>(&mark)) {
    return std::min(RoundUp(size, *bytes), target);
  }
  return Share(target, std::get<Percent>(mark));
}

ResolvedPool Resolve(const PoolConfig& config, NodeId node,
                     const HostPages& pages) {
  const PageCount target = Resolve(config.target, pages);
  const PageCount high = Resolve(config.high, target, pages.size);
  ResolvedPool pool{
      .node = node,
      .page_size = pages.size,
      .target = target,
      .low = std::min(Resolve(config.low, target, pages.size), high),
      .high = high,
      .auto_shapes = config.auto_shapes,
  };
  if (config.auto_shapes) {
    pool.shapes = DefaultShapes(pages.size);
    std::reverse(pool.shapes.begin(), pool.shapes.end());
  } else {
    for (const Bytes shape : config.shapes) {
      pool.shapes.push_back(pages.size.Floor(shape));
    }
  }
  if (target > pages.total) pool.beyond_kernel = target - pages.total;
  return pool;
}

class Expander {
 public:
  Expander(const Config& config, const std::vector<HostNode>& nodes)
      : config_(config), nodes_(nodes) {
    for (const HostNode& node : nodes) {
      if (!node.allowed) continue;
      allowed_.insert(node.id.value());
      for (const HostPages& pages : node.sizes) sizes_.insert(pages.size);
    }
  }

  absl::StatusOr<std::vector<ResolvedPool>> Run() && {
    for (const PoolConfig& pool : config_.pools) Expand(pool);
    if (config_.kernel_pages.mode != KernelPagesMode::kOff) {
      for (const HostNode& node : nodes_) CheckMemory(node);
    }
    HP_RETURN_IF_ERROR(errors_.ToStatus());
    std::sort(pools_.begin(), pools_.end(),
              [](const ResolvedPool& a, const ResolvedPool& b) {
                return std::pair(a.node, b.page_size) <
                       std::pair(b.node, a.page_size);
              });
    return std::move(pools_);
  }

 private:
  // The nodes that `pool` is for; those that cannot be are errors.
  std::vector<const HostNode*> NodesOf(const PoolConfig& pool) {
    std::vector<const HostNode*> found;
    if (pool.all_nodes) {
      for (const HostNode& node : nodes_) {
        if (node.allowed) found.push_back(&node);
      }
      return found;
    }
    for (const NodeId id : pool.nodes) {
      const auto it =
          std::find_if(nodes_.begin(), nodes_.end(),
                       [&](const HostNode& node) { return node.id == id; });
      if (it != nodes_.end() && it->allowed) {
        found.push_back(&*it);
        continue;
      }
      errors_.Add(Below(pool.origin, "nodes"),
                  Cat("node ", id.value(),
                      it == nodes_.end()
                          ? " does not exist or has no memory"
                          : " is outside of this process's allowed memory",
                      ", write all or some of: ", JoinWords(allowed_)));
    }
    return found;
  }

  bool CheckSize(const PoolConfig& pool) {
    if (pool.page_size.has_value() ? sizes_.contains(*pool.page_size)
                                   : !sizes_.empty()) {
      return true;
    }
    std::string what =
        pool.page_size.has_value()
            ? Cat("the kernel offers no pages of ", ToString(*pool.page_size))
            : "the kernel offers no huge pages";
    if (sizes_.empty()) {
      Append(&what,
             ", enable hugetlb in the kernel or "
             "write 'backend: shmem'");
    } else {
      Append(&what, ", write one of: ",
             absl::StrJoin(sizes_, ", ", [](std::string* out, PageSize size) {
               *out += ToString(size);
             }));
    }
    errors_.Add(Below(pool.origin, "page_size"), what);
    return false;
  }

  void Expand(const PoolConfig& pool) {
    const bool size_ok = CheckSize(pool);
    const std::vector<const HostNode*> nodes = NodesOf(pool);
    if (!size_ok) return;
    for (const HostNode* node : nodes) {
      bool found = false;
      for (const HostPages& pages : node->sizes) {
        if (pool.page_size.has_value() && pages.size != *pool.page_size) {
          continue;
        }
        found = true;
        pools_.push_back(Resolve(pool, node->id, pages));
        origins_.push_back(pool.origin);
      }
      if (!found && !pool.all_nodes) {
        errors_.Add(Below(pool.origin, "nodes"),
                    Cat("node ", node->id.value(), " has no pages of ",
                        ToString(*pool.page_size), ", remove it"));
      }
    }
  }

  // What huge pages of all sizes would take of a node once the kernel's
  // counters follow the targets.
  void CheckMemory(const HostNode& node) {
    long double after = 0;  // of bytes: sums of absurd targets do not overflow
    const Origin* grown = nullptr;
    for (const HostPages& pages : node.sizes) {
      PageCount count = pages.total;
      for (size_t i = 0; i < pools_.size(); ++i) {
        const ResolvedPool& pool = pools_[i];
        if (pool.node != node.id || pool.page_size != pages.size) continue;
        if (config_.kernel_pages.mode == KernelPagesMode::kExact) {
          count = pool.target;
        } else {
          count = std::max(count, pool.target);
        }
        if (pool.beyond_kernel > PageCount(0)) grown = &origins_[i];
      }
      after += static_cast<long double>(count.value()) *
               static_cast<long double>(pages.size.bytes().value());
    }
    const Bytes limit(node.memory.value() / 100 *
                      config_.kernel_pages.max_percent);
    if (grown == nullptr || after <= static_cast<long double>(limit.value())) {
      return;
    }
    errors_.Add(
        Below(*grown, "target"),
        Cat("huge pages would take ",
            static_cast<uint64_t>(after /
                                  static_cast<long double>(MiB(1).value())),
            " MiB of the ", node.memory.value() >> 20, " MiB of node ",
            node.id.value(), ", more than ", "kernel_pages.max_percent (",
            config_.kernel_pages.max_percent, "% = ", limit.value() >> 20,
            " MiB), write a smaller target or raise max_percent"));
  }

  const Config& config_;
  const std::vector<HostNode>& nodes_;
  std::set<uint32_t> allowed_;                // nodes, for messages
  std::set<PageSize, std::greater<>> sizes_;  // largest first
  std::vector<ResolvedPool> pools_;
  std::vector<Origin> origins_;  // of pools_, by index
  ConfigErrors errors_;
};

}  // namespace

absl::StatusOr<std::vector<ResolvedPool>> ExpandPools(
    const Config& config, const std::vector<HostNode>& nodes) {
  return Expander(config, nodes).Run();
}

}  // namespace hugepool::server
