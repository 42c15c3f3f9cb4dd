// Makes pages present, zero, a copy, or proves them zero, at the speed of the
// memory.
#ifndef HUGEPOOL_DAEMON_CLEAR_ENGINE_H_
#define HUGEPOOL_DAEMON_CLEAR_ENGINE_H_

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/base/units.h"
#include "daemon/sys/huge_memory.h"

namespace hugepool {

// How much a job may disturb the rest of the machine.
enum class Pace {
  kBackground,  // within the cap on bandwidth
  kUrgent,      // as fast as it goes: somebody waits
};

// A part of a file, [from, to), and what in it somebody will look at first:
// that is worked on last, and left in the caches. What lies outside counts as
// the nearest byte inside.
struct FileSpan {
  Bytes from;
  Bytes to;
  Bytes target{};  // an offset in the file
};

using sys::CopyPart;

// Knows spans of a file, never extents. Used by one steward at a time, but for
// Hurry() and Nudge().
class Engine {
 public:
  virtual ~Engine() = default;
  // Populates the span: the kernel zeroes. The file is mapped.
  virtual absl::Status Populate(sys::HugeFile& file, const FileSpan& span,
                                Pace pace) = 0;
  // Zeroes the span in place. The file is mapped and whole. DATA_LOSS: memory
  // was lost; the span is not zero.
  virtual absl::Status Zero(sys::HugeFile& file, const FileSpan& span,
                            Pace pace) = 0;
  // Fills the file with `parts`, which follow each other without a gap. The
  // file is mapped and whole. DATA_LOSS: a source could not be read.
  virtual absl::Status Copy(sys::HugeFile& file,
                            const std::vector<CopyPart>& parts, Bytes target,
                            Pace pace) = 0;
  // Makes every page of a file of holes present: `parts`, which follow each
  // other without a gap, and zeros elsewhere; what is copied is not cleared
  // first. The file is mapped, and its memory can do it (HugeMemory::CanFill()).
  // RESOURCE_EXHAUSTED and DATA_LOSS as for HugeFill; some pages are present
  // then.
  virtual absl::Status Fill(sys::HugeFile& file,
                            const std::vector<CopyPart>& parts, Bytes target,
                            Pace pace) = 0;
  // Whether Fill() is faster than Populate() and Copy(), as far as is known.
  virtual bool FillsFaster() const { return true; }
  // Looks for bytes that are not zero. The file is mapped, whole, and nobody
  // else's. DATA_LOSS: memory was lost.
  virtual absl::StatusOr<sys::HugeFile::Stray> Verify(sys::HugeFile& file,
                                                      const FileSpan& span,
                                                      Pace pace) = 0;
  // Somebody waits now: background jobs are urgent too, the one at hand
  // included. From any thread; cheap.
  virtual void Hurry() {}
  // There is other work for the caller of a job that waits because of the cap:
  // it does what `SetMeanwhile` gave it. From any thread; cheap.
  virtual void Nudge() {}
  // Before the first job. Called on the thread of the job's caller, between two
  // pieces, with no lock held; must not start a job.
  virtual void SetMeanwhile(std::function<void()> meanwhile) {}
  // Background jobs are that again. To be said *before* looking whether
  // somebody waits: who comes after that look says Hurry().
  virtual void Calm() {}
};

// What of `parts` lies in the `size` bytes at `offset`.
inline std::vector<CopyPart> PartsIn(const std::vector<CopyPart>& parts,
                                     Bytes offset, Bytes size) {
  std::vector<CopyPart> in;
  for (const CopyPart& p : parts) {
    const Bytes begin = std::max(offset, p.offset);
    const Bytes end = std::min(offset + size, p.offset + p.length);
    if (begin >= end) continue;
    in.push_back({p.source, p.from + (begin - p.offset), begin, end - begin});
  }
  return in;
}

// Does it on the caller's thread in one piece: for tests on the fake.
class InlineEngine : public Engine {
 public:
  absl::Status Populate(sys::HugeFile& file, const FileSpan& span,
                        Pace) override {
    return file.Populate(span.from, span.to - span.from);
  }
  absl::Status Zero(sys::HugeFile& file, const FileSpan& span, Pace) override {
    return file.Zero(span.from, span.to - span.from, nullptr);
  }
  absl::Status Copy(sys::HugeFile& file, const std::vector<CopyPart>& parts,
                    Bytes, Pace) override {
    for (const CopyPart& p : parts) {
      absl::Status status =
          file.CopyFrom(*p.source, p.from, p.offset, p.length);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Fill(sys::HugeFile& file, const std::vector<CopyPart>& parts,
                    Bytes, Pace) override {
    auto fill = file.StartFill();
    if (!fill.ok()) return fill.status();
    const Bytes page = file.page_size().bytes();
    for (Bytes at; at < file.size(); at += page) {
      absl::Status status = (*fill)->FillPage(at, PartsIn(parts, at, page));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<sys::HugeFile::Stray> Verify(sys::HugeFile& file,
                                              const FileSpan& span,
                                              Pace) override {
    return file.FindStray(span.from, span.to - span.from);
  }
};

}  // namespace hugepool

#endif  // HUGEPOOL_DAEMON_CLEAR_ENGINE_H_
