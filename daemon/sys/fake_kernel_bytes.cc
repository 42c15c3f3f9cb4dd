// FakeKernel's content: one tag a page.
#include <algorithm>

#include "daemon/sys/fake_kernel.h"

namespace hugepool::sys {

absl::Status FakeKernel::Zero(Desc desc, NodeId node, Bytes offset,
                              Bytes length) {
  MutexLock lock(&mu_);
  if (TakeFailure(Op::kZero) != 0) {
    return absl::DataLossError("zeroing met SIGBUS: poisoned memory");
  }
  Inode& inode = InodeRef(desc);
  violations_.touched_while_held += HeldByOthers(inode);
  const uint64_t page_bytes = inode.page_size.bytes().value();
  const uint64_t end = offset.value() + length.value();
  for (uint64_t at = offset.value(); at < end;) {
    const uint64_t page = at / page_bytes;
    const uint64_t from = at % page_bytes;
    const uint64_t to = std::min(page_bytes, from + (end - at));
    at += to - from;
    if (page >= inode.pages.size() ||
        (!inode.pages[page].present && !AllocatePage(inode, page, node))) {
      ++violations_.daemon_sigbus;
      return absl::DataLossError("zeroing met SIGBUS: no page");
    }
    if (inode.pages[page].tag != 0) NotePiece(inode, page, from, to, 0);
  }
  return absl::OkStatus();
}

absl::StatusOr<HugeFile::Stray> FakeKernel::FindStray(Desc desc, NodeId node,
                                                      Bytes offset,
                                                      Bytes length) {
  MutexLock lock(&mu_);
  if (TakeFailure(Op::kFindStray) != 0) {
    return absl::DataLossError("verifying met SIGBUS: poisoned memory");
  }
  Inode& inode = InodeRef(desc);
  violations_.touched_while_held += HeldByOthers(inode);
  const uint64_t page_bytes = inode.page_size.bytes().value();
  const uint64_t end = offset.value() + length.value();
  HugeFile::Stray stray;
  for (uint64_t at = offset.value(); at < end;) {
    const uint64_t page = at / page_bytes;
    const uint64_t next = std::min(end, (page + 1) * page_bytes);
    // A load fills a hole as a store does.
    if (page >= inode.pages.size() ||
        (!inode.pages[page].present && !AllocatePage(inode, page, node))) {
      ++violations_.daemon_sigbus;
      return absl::DataLossError("verifying met SIGBUS: no page");
    }
    if (inode.pages[page].tag != 0) {
      if (stray.count == 0) stray.first = Bytes(at);
      stray.count += next - at;
    }
    at = next;
  }
  return stray;
}

absl::Status FakeKernel::Copy(Desc to, Bytes offset, Desc source, Bytes from,
                              Bytes length) {
  MutexLock lock(&mu_);
  if (TakeFailure(Op::kRead) != 0) {
    return absl::DataLossError("the source cannot be read: poisoned memory");
  }
  Inode& inode = InodeRef(to);
  violations_.touched_while_held += HeldByOthers(inode);
  return CopyLocked(inode, {source, from, offset, length});
}

absl::Status FakeKernel::FillPage(Desc to, NodeId node, Bytes offset,
                                  const std::vector<CopyFrom>& parts) {
  MutexLock lock(&mu_);
  Inode& inode = InodeRef(to);
  violations_.touched_while_held += HeldByOthers(inode);
  for (const CopyFrom& p : parts) {
    const Inode& read = InodeRef(p.source);
    const Bytes end = read.page_size.Of(PageCount(read.pages.size()));
    if (TakeFailure(Op::kRead) != 0 || p.from + p.length > end) {
      return absl::DataLossError("the source cannot be read, or ends before");
    }
  }
  const uint64_t page = offset.value() / inode.page_size.bytes().value();
  if (page >= inode.pages.size()) return absl::OutOfRangeError("past the end");
  if (inode.pages[page].present) {
    return absl::AlreadyExistsError("there is a page");
  }
  if (TakeFailure(Op::kPopulate) != 0 || !AllocatePage(inode, page, node)) {
    return absl::ResourceExhaustedError("UFFDIO_COPY: no page");
  }
  for (const CopyFrom& p : parts) {
    absl::Status status = CopyLocked(inode, p);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status FakeKernel::CopyLocked(Inode& inode, const CopyFrom& part) {
  const Inode& read = InodeRef(part.source);
  const uint64_t page_bytes = inode.page_size.bytes().value();
  const uint64_t read_bytes = read.page_size.bytes().value();
  for (uint64_t done = 0; done < part.length.value();) {
    const uint64_t at = part.offset.value() + done;
    const uint64_t at_source = part.from.value() + done;
    // As far as neither leaves its page.
    const uint64_t step =
        std::min({part.length.value() - done, page_bytes - at % page_bytes,
                  read_bytes - at_source % read_bytes});
    const uint64_t page = at / page_bytes;
    const uint64_t source_page = at_source / read_bytes;
    if (source_page >= read.pages.size()) {
      return absl::DataLossError("the source ends before");
    }
    if (page >= inode.pages.size() || !inode.pages[page].present) {
      ++violations_.daemon_sigbus;
      return absl::FailedPreconditionError("copying into a hole");
    }
    NotePiece(inode, page, at % page_bytes, at % page_bytes + step,
              read.pages[source_page].tag);
    done += step;
  }
  return absl::OkStatus();
}

void FakeKernel::NotePiece(Inode& inode, uint64_t page, uint64_t from,
                           uint64_t to, uint8_t tag) {
  if (inode.pages[page].tag == tag) return;
  Pieces& pieces = inode.pieces[page];
  if (pieces.tag != tag) pieces = Pieces{.tag = tag, .done = {}};
  auto& done = pieces.done;
  auto it = done.upper_bound(from);
  if (it != done.begin() && std::prev(it)->second >= from) --it;
  while (it != done.end() && it->first <= to) {
    from = std::min(from, it->first);
    to = std::max(to, it->second);
    it = done.erase(it);
  }
  done[from] = to;
  if (from == 0 && to == inode.page_size.bytes().value()) {
    StoreTag(inode, page, tag);
  } else if (tag != 0) {
    inode.pages[page].tag = kMixed;
  }
}

absl::StatusOr<bool> FakeKernel::AllZero(Desc desc) {
  MutexLock lock(&mu_);
  const Inode& inode = InodeRef(desc);
  return std::all_of(inode.pages.begin(), inode.pages.end(),
                     [](const Page& page) { return page.tag == 0; });
}

}  // namespace hugepool::sys
