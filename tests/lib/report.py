"""Counts GoogleTest cases in what a `bazel test` did.

  report.py PART EVENTS RESULTS LABEL...

EVENTS is the file of --build_event_json_file, LABELs are what should have been
tested. Appends "STATUS<tab>PART<tab>NAME<tab>REASON" a case to RESULTS, STATUS
being passed, failed or skipped; names the failed ones and counts the others.
A test that is no GoogleTest is one case.
"""

import collections
import json
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def load(events_file):
    """{label: [(status, path of test.xml or None)]}, one for each shard."""
    runs = collections.defaultdict(list)
    try:
        with open(events_file, encoding="utf-8") as f:
            events = [json.loads(line) for line in f if line.strip()]
    except OSError:
        return runs
    for event in events:
        ident = event.get("id", {}).get("testResult")
        result = event.get("testResult")
        if ident is None or result is None:
            continue
        outputs = {o.get("name"): o.get("uri", "")
                   for o in result.get("testActionOutput", [])}
        uri = outputs.get("test.xml", "")
        path = urllib.parse.unquote(uri[len("file://"):]) if uri else None
        runs[ident["label"]].append((result.get("status", "NO_STATUS"), path))
    return runs


def reason_of(element):
    """What GTEST_SKIP() << or a failed expectation said, in one line."""
    lines = [l.strip() for l in (element.get("message") or "").splitlines()]
    # The first line is "file:line".
    said = [l for l in lines[1:] or lines if l]
    return "; ".join(said)[:300]


def cases(path):
    """(status, name, reason) of each case in a test.xml."""
    try:
        tree = ElementTree.parse(path)
    except (OSError, TypeError, ElementTree.ParseError):
        return []
    found = []
    for case in tree.iter("testcase"):
        name = "%s.%s" % (case.get("classname") or "", case.get("name") or "")
        bad = case.find("failure")
        bad = case.find("error") if bad is None else bad
        skipped = case.find("skipped")
        if bad is not None:
            found.append(("failed", name.strip("."), reason_of(bad)))
        elif skipped is not None or case.get("result") == "skipped":
            why = reason_of(skipped) if skipped is not None else ""
            found.append(("skipped", name.strip("."), why or "no reason given"))
        elif case.get("status") != "notrun":
            found.append(("passed", name.strip("."), ""))
    return found


def results(label, runs):
    """What happened to a label, case by case."""
    if not runs:
        return [("failed", label, "not built, or not run")]
    found = []
    for status, path in runs:
        in_run = cases(path)
        found += [(s, "%s %s" % (label, n), why) for s, n, why in in_run]
        if status not in ("PASSED", "FLAKY") and all(
                s != "failed" for s, _, _ in in_run):
            found.append(("failed", label, status.lower().replace("_", " ")))
    return found


def main():
    part, events, results_file = sys.argv[1:4]
    runs = load(events)
    all_results = [r for label in sys.argv[4:] for r in results(label, runs.get(label))]
    with open(results_file, "a", encoding="utf-8") as f:
        for status, name, reason in all_results:
            f.write("\t".join([status, part, name, reason.replace("\t", " ")]) + "\n")
    counts = collections.Counter(status for status, _, _ in all_results)
    for status, name, reason in all_results:
        if status == "failed":
            print("  FAILED %s: %s" % (name, reason))
    print("  %s: %d passed, %d failed, %d skipped" % (
        part, counts["passed"], counts["failed"], counts["skipped"]))


main()
