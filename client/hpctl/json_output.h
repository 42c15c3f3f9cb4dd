// Messages as JSON.
#ifndef HUGEPOOL_CLIENT_HPCTL_JSON_OUTPUT_H_
#define HUGEPOOL_CLIENT_HPCTL_JSON_OUTPUT_H_

#include <optional>
#include <ostream>
#include <string>

#include "google/protobuf/message.h"
#include "hugepool/v1/types.pb.h"
#include "nlohmann/json.hpp"

namespace hugepool::hpctl {

// Keys are the field names of the .proto files, all of them present, in their
// order: as stable as the wire. Sizes are numbers (of bytes), enums their names
// without the prefix, in lower case; times are RFC 3339, durations seconds.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// One object, indented, and a line end.
void PrintJson(std::ostream& out, const nlohmann::ordered_json& json);
// One object on one line.
void PrintJsonLine(std::ostream& out, const nlohmann::ordered_json& json);

// {"error": {code, message, reason, retryable, wanted_bytes, available_bytes,
// hint}} on one line.
void PrintErrorJson(std::ostream& out, const std::string& code,
                    const std::string& message,
                    const std::optional<v1::ErrorDetail>& detail);

// The name of an enum value for people: "LEASE_STATE_HELD" of LeaseState is
// "held", UNSPECIFIED is "-".
std::string EnumName(const google::protobuf::EnumValueDescriptor* value);

}  // namespace hugepool::hpctl

#endif  // HUGEPOOL_CLIENT_HPCTL_JSON_OUTPUT_H_
