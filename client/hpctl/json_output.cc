#include "client/hpctl/json_output.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"

namespace hugepool::hpctl {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::ordered_json;

// What all values of the enum begin with: "LEASE_STATE_" of
// LEASE_STATE_UNSPECIFIED.
std::string Prefix(const EnumValueDescriptor* value) {
  const EnumValueDescriptor* zero = value->type()->FindValueByNumber(0);
  if (zero == nullptr) return "";
  const std::string& name = zero->name();
  const size_t at = name.rfind("UNSPECIFIED");
  return at == std::string::npos ? "" : name.substr(0, at);
}

ordered_json MessageValue(const Message& message) {
  if (message.GetDescriptor() == google::protobuf::Timestamp::descriptor()) {
    return google::protobuf::util::TimeUtil::ToString(
        static_cast<const google::protobuf::Timestamp&>(message));
  }
  if (message.GetDescriptor() == google::protobuf::Duration::descriptor()) {
    const auto& d = static_cast<const google::protobuf::Duration&>(message);
    return static_cast<double>(d.seconds()) + d.nanos() * 1e-9;
  }
  return ToJson(message);
}

// One value of `field`; the one at `index` where it is repeated.
ordered_json Value(const Message& m, const FieldDescriptor* field, int index) {
  const Reflection* r = m.GetReflection();
  const bool many = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? r->GetRepeatedInt32(m, field, index)
                  : r->GetInt32(m, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? r->GetRepeatedInt64(m, field, index)
                  : r->GetInt64(m, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? r->GetRepeatedUInt32(m, field, index)
                  : r->GetUInt32(m, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? r->GetRepeatedUInt64(m, field, index)
                  : r->GetUInt64(m, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? r->GetRepeatedDouble(m, field, index)
                  : r->GetDouble(m, field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return many ? r->GetRepeatedFloat(m, field, index)
                  : r->GetFloat(m, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? r->GetRepeatedBool(m, field, index) : r->GetBool(m, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumName(many ? r->GetRepeatedEnum(m, field, index)
                           : r->GetEnum(m, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? r->GetRepeatedString(m, field, index)
                  : r->GetString(m, field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageValue(many ? r->GetRepeatedMessage(m, field, index)
                               : r->GetMessage(m, field));
  }
  return nullptr;
}

ordered_json MapValue(const Message& m, const FieldDescriptor* field) {
  ordered_json out = ordered_json::object();
  const Reflection* r = m.GetReflection();
  const auto* entry = field->message_type();
  for (int i = 0; i < r->FieldSize(m, field); ++i) {
    const Message& pair = r->GetRepeatedMessage(m, field, i);
    const ordered_json key = Value(pair, entry->map_key(), -1);
    out[key.is_string() ? key.get<std::string>() : key.dump()] =
        Value(pair, entry->map_value(), -1);
  }
  return out;
}

std::string Dump(const ordered_json& json, int indent) {
  // Names come from outside and need not be UTF-8.
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string EnumName(const EnumValueDescriptor* value) {
  if (value->number() == 0) return "-";
  std::string name = value->name();
  const std::string prefix = Prefix(value);
  if (name.compare(0, prefix.size(), prefix) == 0) name.erase(0, prefix.size());
  return absl::AsciiStrToLower(name);
}

ordered_json ToJson(const Message& message) {
  ordered_json out = ordered_json::object();
  const auto* type = message.GetDescriptor();
  const Reflection* r = message.GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->is_map()) {
      out[field->name()] = MapValue(message, field);
    } else if (field->is_repeated()) {
      ordered_json list = ordered_json::array();
      for (int k = 0; k < r->FieldSize(message, field); ++k) {
        list.push_back(Value(message, field, k));
      }
      out[field->name()] = std::move(list);
    } else if (field->has_presence() && !r->HasField(message, field)) {
      // Of a oneof only the one that is set stands in the object.
      if (field->containing_oneof() == nullptr) out[field->name()] = nullptr;
    } else {
      out[field->name()] = Value(message, field, -1);
    }
  }
  return out;
}

void PrintJson(std::ostream& out, const ordered_json& json) {
  out << Dump(json, 2) << "\n";
}

void PrintJsonLine(std::ostream& out, const ordered_json& json) {
  out << Dump(json, -1) << "\n" << std::flush;
}

void PrintErrorJson(std::ostream& out, const std::string& code,
                    const std::string& message,
                    const std::optional<v1::ErrorDetail>& detail) {
  ordered_json error;
  error["code"] = absl::AsciiStrToLower(code);
  error["message"] = message;
  error.update(ToJson(detail.value_or(v1::ErrorDetail())));
  PrintJsonLine(out, {{"error", error}});
}

}  // namespace hugepool::hpctl
