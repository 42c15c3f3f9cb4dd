// A client of hugepoold that does what the lines on its standard input say, and
// answers each with a line. The commands are described where they are:
// lease_commands.cc, holder_commands.cc, inode_commands.cc, pin_commands.cc.
// Ends at the end of its input.
#include <signal.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "tests/harness/hands.h"
#include "tests/harness/line.h"

int main() {
  namespace t = hugepool::testing;
  // Children are not waited for.
  signal(SIGCHLD, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  t::InstallFaultHandler();
  t::CommandTable table;
  t::AddLeaseCommands(&table);
  t::AddHolderCommands(&table);
  t::AddInodeCommands(&table);
  t::AddPinCommands(&table);
  t::Hands hands;
  std::cout << "ok ready" << std::endl;
  std::string text;
  while (std::getline(std::cin, text)) {
    const t::Line in = t::Line::Parse(text);
    const auto it = table.find(in.verb());
    const t::Line out = it != table.end()
                            ? it->second(hands, in)
                            : t::Line("error").Set("code", "UNKNOWN COMMAND");
    std::cout << out.Text() << std::endl;
  }
  return 0;
}
