// The wire interface is kept: what it was may not change unnoticed.
//
// golden_descriptor.txt is the interface in the form of protobuf's text format,
// one line a fact, without comments and positions. To change the interface
// deliberately, read the rules at the head of types.proto, then copy the file
// that the failing test names over the golden one, and say in the change why
// old clients and old daemons can live with it.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;

constexpr char kSet[] = "proto/hugepool_cc_proto.descriptor_set.pb";
constexpr char kGolden[] = "proto/golden_descriptor.txt";

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

FileDescriptorSet ReadSet() {
  FileDescriptorSet set;
  EXPECT_TRUE(set.ParseFromString(ReadAll(kSet))) << kSet;
  return set;
}

void Print(const FieldDescriptorProto& f, const std::string& of,
           std::ostream& out) {
  out << "field " << of << "." << f.name() << " = " << f.number() << " "
      << FieldDescriptorProto::Label_Name(f.label()) << " "
      << FieldDescriptorProto::Type_Name(f.type());
  if (f.has_type_name()) out << " " << f.type_name();
  if (f.has_oneof_index()) out << " oneof " << f.oneof_index();
  out << "\n";
}

void Print(const EnumDescriptorProto& e, const std::string& scope,
           std::ostream& out) {
  for (const auto& value : e.value()) {
    out << "enum " << scope << e.name() << "." << value.name() << " = "
        << value.number() << "\n";
  }
}

void Print(const DescriptorProto& m, const std::string& scope,
           std::ostream& out) {
  const std::string name = scope + m.name();
  out << "message " << name << "\n";
  for (const auto& range : m.reserved_range()) {
    out << "reserved " << name << " " << range.start() << " to "
        << range.end() - 1 << "\n";
  }
  for (const FieldDescriptorProto& f : m.field()) Print(f, name, out);
  for (const EnumDescriptorProto& e : m.enum_type()) Print(e, name + ".", out);
  for (const DescriptorProto& n : m.nested_type()) Print(n, name + ".", out);
}

std::string Describe(const FileDescriptorSet& set) {
  std::ostringstream out;
  for (const FileDescriptorProto& file : set.file()) {
    if (file.package() != "hugepool.v1") continue;
    const std::string scope = "." + file.package() + ".";
    out << "file " << file.name() << " " << file.syntax() << "\n";
    for (const EnumDescriptorProto& e : file.enum_type()) Print(e, scope, out);
    for (const DescriptorProto& m : file.message_type()) Print(m, scope, out);
    for (const auto& service : file.service()) {
      for (const auto& method : service.method()) {
        out << "rpc " << scope << service.name() << "." << method.name() << "("
            << (method.client_streaming() ? "stream " : "")
            << method.input_type() << ") returns ("
            << (method.server_streaming() ? "stream " : "")
            << method.output_type() << ")\n";
      }
    }
  }
  return out.str();
}

TEST(GoldenDescriptorTest, InterfaceIsUnchanged) {
  const std::string now = Describe(ReadSet());
  const std::string golden = ReadAll(kGolden);
  if (now == golden) return;
  const char* const dir = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  const std::string copy =
      std::string(dir != nullptr ? dir : "/tmp") + "/golden_descriptor.txt";
  std::ofstream(copy) << now;
  std::vector<std::string> lines[2];
  for (int i = 0; i < 2; ++i) {
    std::istringstream in(i == 0 ? golden : now);
    for (std::string line; std::getline(in, line);) lines[i].push_back(line);
  }
  size_t at = 0;
  while (at < lines[0].size() && at < lines[1].size() &&
         lines[0][at] == lines[1][at]) {
    ++at;
  }
  const auto line = [&](int i) {
    return at < lines[i].size() ? lines[i][at] : std::string("(the end)");
  };
  FAIL() << "The wire interface is not what it was. First difference, line "
         << at + 1 << ":\n  was: " << line(0) << "\n  is:  " << line(1)
         << "\nIf that is meant, and old clients and daemons can live with it:\n"
         << "  cp " << copy << " " << kGolden;
}

// The package's rules, at the head of types.proto.
TEST(GoldenDescriptorTest, EveryEnumBeginsWithUnspecified) {
  const auto check = [](const EnumDescriptorProto& e) {
    EXPECT_EQ(e.value(0).number(), 0) << e.name();
    EXPECT_TRUE(e.value(0).name().ends_with("UNSPECIFIED")) << e.name();
  };
  const FileDescriptorSet set = ReadSet();
  for (const FileDescriptorProto& file : set.file()) {
    if (file.package() != "hugepool.v1") continue;
    for (const EnumDescriptorProto& e : file.enum_type()) check(e);
    for (const DescriptorProto& m : file.message_type()) {
      for (const EnumDescriptorProto& e : m.enum_type()) check(e);
    }
  }
}

TEST(GoldenDescriptorTest, Numbers50To99AreFree) {
  const FileDescriptorSet set = ReadSet();
  for (const FileDescriptorProto& file : set.file()) {
    if (file.package() != "hugepool.v1") continue;
    for (const DescriptorProto& m : file.message_type()) {
      for (const FieldDescriptorProto& f : m.field()) {
        EXPECT_FALSE(f.number() >= 50 && f.number() <= 99)
            << m.name() << "." << f.name();
      }
    }
  }
}

}  // namespace
