// The commands of hpctl, one function for each group.
#ifndef HUGEPOOL_CLIENT_HPCTL_COMMANDS_H_
#define HUGEPOOL_CLIENT_HPCTL_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/hpctl/globals.h"

namespace hugepool::hpctl {

// What the command line asks for; returns the exit code. Set by the command
// that was found, run after all of the line was understood.
using Action = std::function<int()>;

// Each adds its commands to `app`. `globals` and `action` must outlive it.
void AddStatusCommands(CLI::App* app, const Globals* globals, Action* action);
void AddEventCommands(CLI::App* app, const Globals* globals, Action* action);
void AddLeaseCommands(CLI::App* app, const Globals* globals, Action* action);
void AddPoolCommands(CLI::App* app, const Globals* globals, Action* action);
void AddConfigCommands(CLI::App* app, const Globals* globals, Action* action);
void AddAcquireCommand(CLI::App* app, const Globals* globals, Action* action);
// `command` is what stands behind "--".
void AddRunCommand(CLI::App* app, const Globals* globals,
                   const std::vector<std::string>* command, Action* action);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_COMMANDS_H_
