"""Which Bazel tests there are, to which part of tests/run.sh each belongs, and
which GoogleTest cases are in it.

Reads `bazel query --output=xml` of all tests on standard input; the cases come
from the sources, so that nothing has to be built to list or choose them.

  targets.py list             a table for people
  targets.py part PART        the labels of a part
  targets.py tagged TAG       the labels with a tag
  targets.py only PATTERN...  PART LABEL FILTER a line, for what matches; FILTER
                              is GoogleTest's, or * where the target's name does
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

CASE = re.compile(r"^\s*(TYPED_TEST|TYPED_TEST_P|TEST|TEST_F|TEST_P)\(\s*(\w+)\s*,"
                  r"\s*(\w+)\s*\)", re.MULTILINE)
# How GoogleTest names what each macro makes.
FILTERS = {
    "TEST": "{0}.{1}",
    "TEST_F": "{0}.{1}",
    "TEST_P": "*{0}.{1}/*",
    "TYPED_TEST": "{0}/*.{1}",
    "TYPED_TEST_P": "*{0}/*.{1}",
}
FIELD_CASE = re.compile(r"[TN][0-9]+", re.IGNORECASE)


class Test:
    def __init__(self, rule):
        self.label = rule.get("name")
        self.tags = values(rule, "tags", "string")
        self.sources = [s for s in values(rule, "srcs", "label")
                        if s.endswith((".cc", ".h"))]
        self._cases = None

    @property
    def part(self):
        if "plants" in self.tags or "plants" in self.label:
            return "plants"
        if "random-clients" in self.tags or "random_clients" in self.label:
            return "random-clients"
        if self.label.startswith("//tests/core"):
            return "core"
        return "integration" if self.label.startswith("//tests/") else "unit"

    @property
    def cases(self):
        """(name, filter) of each."""
        if self._cases is None:
            self._cases = [
                ("%s.%s" % (suite, name), FILTERS[macro].format(suite, name))
                for source in self.sources
                for macro, suite, name in CASE.findall(read(source))
            ]
        return self._cases


def values(rule, attribute, kind):
    return [e.get("value") for e in rule.findall(
        "./list[@name='%s']/%s" % (attribute, kind))]


def read(label):
    path = label.replace("//", "", 1).replace(":", "/", 1).lstrip("/")
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:  # generated
        return ""


def load(text):
    # Python's parser knows XML 1.0 only, which is what Bazel's output is too.
    text = text.replace('version="1.1"', 'version="1.0"', 1)
    rules = ElementTree.fromstring(text).findall("rule")
    tests = [Test(r) for r in rules if r.get("class") != "test_suite"]
    tests = [t for t in tests if "manual" not in t.tags or t.part == "plants"]
    return sorted(tests, key=lambda t: t.label)


def matcher(pattern):
    """Finds a part of a name. A field case stands at the head of its word: T1
    is in T1Grant and t1_test, not in T12Fds or AT1."""
    if FIELD_CASE.fullmatch(pattern):
        return re.compile(r"(?<![A-Z])%s(?![0-9])|(?<![A-Za-z0-9])%s(?![0-9])" % (
            pattern.upper(), pattern.lower())).search
    return re.compile(re.escape(pattern), re.IGNORECASE).search


def show(tests):
    for test in tests:
        exclusive = "  (one at a time)" if "exclusive" in test.tags else ""
        print("%-15s %s%s" % (test.part, test.label, exclusive))
        for name, _ in test.cases:
            print("%-15s     %s" % ("", name))


def only(tests, patterns):
    for test in tests:
        chosen = []
        for matches in map(matcher, patterns):
            if matches(test.label):
                chosen = ["*"]
                break
            chosen += [f for name, f in test.cases if matches(name)]
        if chosen:
            print(test.part, test.label, ":".join(dict.fromkeys(chosen)))


def main():
    tests = load(sys.stdin.read())
    command = sys.argv[1]
    if command == "list":
        show(tests)
    elif command == "part":
        print("\n".join(t.label for t in tests if t.part == sys.argv[2]))
    elif command == "tagged":
        # Nothing at all where there is none: an empty line is no label.
        for t in tests:
            if sys.argv[2] in t.tags:
                print(t.label)
    elif command == "only":
        only(tests, sys.argv[2:])
    else:
        sys.exit(__doc__)


main()
