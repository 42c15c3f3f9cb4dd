#include "daemon/server/config/setters.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "daemon/server/config/words.h"

namespace hugepool::server {

namespace {

// Directories other than /etc/group allow more characters than groupadd does.
void SetGroupName(const Value& v, std::string* into) {
  constexpr std::string_view kHint = "the name or number of a group, or \"\"";
  constexpr size_t kLongest = 256;
  const std::optional<std::string> word = v.AsText(kHint);
  if (!word.has_value()) return;
  if (word->size() > kLongest || word->find_first_of(":,") != word->npos) {
    v.Fail(Cat("is no name of a group, write ", kHint));
    return;
  }
  *into = *word;
}

}  // namespace

void SetGroup(const Value& v, bool everybody_allowed, std::string* into) {
  const std::optional<std::string> word = v.text();
  if (word.has_value() && word->empty()) {
    into->clear();
  } else if (word == kEverybody && everybody_allowed) {
    *into = kEverybody;
  } else if (word == kEverybody) {
    v.Fail(
        "'*' would let everybody administer the daemon, write the name of a "
        "group, or \"\" for root only");
  } else {
    SetGroupName(v, into);
  }
}

void SetListenerDomain(const Value& v, std::string* into) {
  const std::optional<std::string> word = v.text();
  if (word.has_value() && word->empty()) {
    into->clear();
    return;
  }
  const std::optional<std::string> name = v.AsName("the name of a domain");
  if (!name.has_value()) return;
  if (name->starts_with(kUidDomainPrefix)) {
    v.Fail(
        "names that begin with 'uid:' are those of domains by user, write "
        "another name");
    return;
  }
  *into = *name;
}

void SetTarget(const Value& v, PoolTarget* into) {
  const std::string word = v.text().value_or("");
  if (word == "max") {
    *into = AllPages{};
  } else if (word.ends_with("%")) {
    Set(v.AsPercent(), into);
  } else if (word.empty() || !absl::ascii_isdigit(word[0])) {
    v.Fail(
        "not an amount, write a size such as 64GiB, a share of the kernel's "
        "pages such as 80%, or max");
  } else {
    Set(v.AsBytes(), into);
  }
}

void SetWatermark(const Value& v, Watermark* into) {
  const std::string word = v.text().value_or("");
  if (word.ends_with("%")) {
    Set(v.AsPercent(), into);
  } else if (word.empty() || !absl::ascii_isdigit(word[0])) {
    v.Fail(
        "not an amount, write a share of the target such as 25%, or a size "
        "such as 16GiB");
  } else {
    Set(v.AsBytes(), into);
  }
}

void SetNodes(const Value& v, PoolConfig* pool) {
  if (v.text() == "all") {
    pool->all_nodes = true;
    return;
  }
  const auto items = v.AsList("all, or the kernel's numbers such as [0, 1]");
  if (!items.has_value()) return;
  if (items->empty()) v.Fail("the list is empty, write all or some numbers");
  pool->all_nodes = false;
  for (const Value& item : *items) {
    constexpr uint32_t kMaxNode = 1023;  // MAX_NUMNODES of the kernel
    const std::optional<uint32_t> n = item.AsCount(0, kMaxNode);
    if (!n.has_value()) continue;
    if (std::count(pool->nodes.begin(), pool->nodes.end(), NodeId(*n)) > 0) {
      item.Fail(Cat("node ", *n, " stands here twice, remove one"));
    } else {
      pool->nodes.push_back(NodeId(*n));
    }
  }
  std::sort(pool->nodes.begin(), pool->nodes.end());
}

void SetShapes(const Value& v, PoolConfig* pool) {
  if (v.text() == "auto") {
    pool->auto_shapes = true;
    return;
  }
  const auto items = v.AsList("auto, or sizes such as [2MiB, 32MiB, 1GiB]");
  if (!items.has_value()) return;
  if (items->empty()) v.Fail("the list is empty, write auto or some sizes");
  pool->auto_shapes = false;
  for (const Value& item : *items) {
    const std::optional<Bytes> size = item.AsBytes();
    if (!size.has_value()) continue;
    if (std::count(pool->shapes.begin(), pool->shapes.end(), *size) > 0) {
      item.Fail(Cat(ToString(*size), " stands here twice, remove one"));
    } else {
      pool->shapes.push_back(*size);
    }
  }
  std::sort(pool->shapes.begin(), pool->shapes.end());
}

// A size, where "none" and 0 are no limit.
void SetQuota(const Value& v, Bytes* into) {
  if (v.text() == "none") {
    *into = Bytes(0);
  } else {
    Set(v.AsBytes(), into);
  }
}

void SetBandwidth(const Value& v, std::optional<Bytes>* into) {
  if (v.text() == "none") {
    *into = std::nullopt;
    return;
  }
  const std::optional<Bytes> bytes = v.AsBytes("/s");
  if (!bytes.has_value()) return;
  if (*bytes < MiB(1)) {
    v.Fail(
        "less than 1MiB a second would never fill a pool, write more, or "
        "none for no cap");
    return;
  }
  *into = *bytes;
}

}  // namespace hugepool::server
