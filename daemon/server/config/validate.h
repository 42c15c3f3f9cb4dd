// What must hold between values, once all files have been read. Internal.
#ifndef HUGEPOOL_DAEMON_SERVER_CONFIG_VALIDATE_H_
#define HUGEPOOL_DAEMON_SERVER_CONFIG_VALIDATE_H_

#include "daemon/server/config/config_errors.h"
#include "daemon/server/config/fields.h"

namespace hugepool::server {

// Puts the defaults where nothing was said. Comes before Validate.
void FillDefaults(Draft* draft);

// Adds an error for everything that contradicts itself or something else.
void Validate(const Draft& draft, ConfigErrors* errors);

}  // namespace hugepool::server

#endif  // HUGEPOOL_DAEMON_SERVER_CONFIG_VALIDATE_H_
