"""Reads what a guest says on its serial line, as it comes, and tells the checks.

  results.py TOPOLOGY STARTED RESULTS <LINES

LINES are those of tests/vm/guest.sh with GoogleTest's between them, STARTED is
when the guest was started (seconds since 1970). Prints "ok NAME", "not ok NAME:
WHY" or "skipped NAME: WHY" a check, and how long the boot and the tests took.
Appends "STATUS<tab>NAME<tab>REASON" a check to RESULTS, as tests/lib/report.py
does. A test that never ended, a program that failed otherwise and a guest that
did not come to its end are failed checks.
"""

import re
import sys
import time

RUN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[( +OK|  FAILED | +SKIPPED) +\] (\S+?),? .*\((\d+) ms\)")
WORDS = {"passed": "ok", "failed": "not ok", "skipped": "skipped"}


class Reader:
    def __init__(self, topology, started, results):
        self.topology = topology
        self.started = started
        self.results = results
        self.begun = None     # when the first program was
        self.program = None   # the one that runs
        self.failed_in = 0    # of its cases
        self.case = None      # the one that runs
        self.said = []        # since it began
        self.outside = []     # what failed outside of cases
        self.ended = False

    def tell(self, status, name, reason="", took=""):
        tail = ": " + reason if reason else ""
        print("  %s %s%s%s" % (WORDS[status], name, took, tail), flush=True)
        line = (status, "%s %s" % (self.topology, name), reason.replace("\t", " "))
        self.results.write("\t".join(line) + "\n")
        self.results.flush()
        self.failed_in += status == "failed"

    @staticmethod
    def reason(said):
        """In one line; the name of the file goes first."""
        said = [l.strip() for l in said if l.strip()]
        return "; ".join(l for l in said if not l.endswith(": Skipped"))[:600]

    def end_case(self, status, took):
        reason = "" if status == "passed" else self.reason(self.said) or "no reason given"
        self.tell(status, self.case, reason, " (%s ms)" % took)
        self.case = None

    def end_program(self, status):
        if self.case is not None:
            self.tell("failed", self.case, "it did not end: " + self.reason(self.said))
            self.case = None
        elif status not in ("0", None) and self.failed_in == 0:
            self.tell("failed", self.program,
                      "it ended with status %s: %s" % (
                          status, self.reason(self.outside or self.said)))
        self.program = None

    def line(self, text):
        words = text.split()
        if words[:2] == ["vm", "begin"]:
            self.begun = time.time()
            print("  booted Linux %s in %.1f s" % (
                words[2], self.begun - self.started), flush=True)
        elif words[:2] == ["vm", "run"]:
            self.program, self.failed_in = words[2], 0
            self.said, self.outside = [], []
        elif words[:2] == ["vm", "status"] and self.program is not None:
            self.end_program(words[2])
        elif words[:2] == ["vm", "end"]:
            self.ended = True
            print("  tests took %.1f s" % (time.time() - self.begun), flush=True)
        elif RUN.match(text):
            # Setting up a suite.
            if any(": Failure" in l for l in self.said):
                self.outside += self.said
            self.case, self.said = RUN.match(text).group(1), []
        elif self.case is not None and END.match(text):
            kind, name, took = END.match(text).groups()
            if name != self.case:
                return
            self.end_case({"OK": "passed", "FAILED": "failed"}.get(
                kind.strip(), "skipped"), took)
        else:
            self.said.append(text)

    def end(self):
        if self.program is not None:
            self.end_program(None)
        if self.begun is None:
            self.tell("failed", "boot", "the guest did not come to its tests")
        elif not self.ended:
            self.tell("failed", "guest", "it did not come to the end of its tests")


def main():
    topology, started, results_file = sys.argv[1:]
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    with open(results_file, "a", encoding="utf-8") as results:
        reader = Reader(topology, float(started), results)
        for line in sys.stdin:
            reader.line(line.rstrip("\r\n"))
        reader.end()


main()
