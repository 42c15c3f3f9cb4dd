#include "daemon/server/config/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "daemon/base/errno_status.h"
#include "daemon/base/unique_fd.h"
#include "daemon/server/config/config_errors.h"
#include "daemon/server/config/fields.h"
#include "daemon/server/config/validate.h"
#include "daemon/server/config/value.h"
#include "daemon/server/config/words.h"
#include "yaml-cpp/depthguard.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace hugepool::server {
namespace {

struct Source {
  std::string name;
  std::string text;
};

// Reads at most one byte more than a configuration may have.
absl::StatusOr<std::string> ReadFile(const std::string& path) {
  // Not to wait for a writer where the path is a FIFO.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoToStatus(errno, Cat("open ", path));
  struct stat st;
  if (fstat(fd.get(), &st) != 0) {
    return ErrnoToStatus(errno, Cat("fstat ", path));
  }
  if (!S_ISREG(st.st_mode)) {
    return absl::InvalidArgumentError(
        Cat(path, ": is not a file, write the path of a YAML file"));
  }
  std::string text(kMaxConfigFile.value() + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoToStatus(errno, Cat("read ", path));
    if (n == 0) break;
    have += n;
  }
  text.resize(have);
  return text;
}

// The paths of conf.d/*.yaml beside `path`, in order.
absl::StatusOr<std::vector<std::string>> DropIns(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::path(path).parent_path() / "conf.d";
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  if (error == std::errc::no_such_file_or_directory) return found;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".yaml") && !name.starts_with(".")) {
      found.push_back(it->path().string());
    }
  }
  if (error) {
    return ErrnoToStatus(error.value(), Cat("list ", dir.string()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Hears where documents begin and nothing else.
class DocumentStarts : public YAML::EventHandler {
 public:
  const std::vector<YAML::Mark>& starts() const { return starts_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    starts_.push_back(mark);
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::vector<YAML::Mark> starts_;
};

// Where something stands behind the first document, if anything does.
// YAML::Load would not look there, and YAML::LoadAll never ends on texts such
// as
// ",": it finds one empty document after the other at the same place.
std::optional<YAML::Mark> SecondDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentStarts documents;
  parser.HandleNextDocument(documents);
  parser.HandleNextDocument(documents);
  if (documents.starts().size() < 2) return std::nullopt;
  return documents.starts()[1];
}

// A line by its number from 0. (Mark::pos counts something else than bytes
// where the text has a byte order mark.)
std::string_view LineOf(std::string_view text, int number) {
  for (; number > 0; --number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// yaml-cpp's words, which may quote any byte of the text.
std::string SyntaxHint(const YAML::Exception& e) {
  if (dynamic_cast<const YAML::DeepRecursion*>(&e) != nullptr) {
    return "lists and maps are nested too deeply, write it flat";
  }
  std::string words = e.msg;
  std::replace_if(
      words.begin(), words.end(),
      [](unsigned char c) { return !absl::ascii_isprint(c); }, '?');
  return Cat("is not YAML: ", words,
             ", check indentation (spaces only), colons and quotes");
}

// Reads one text into the draft. No exception gets out.
void ReadSource(const Source& source, Draft* draft, ConfigErrors* errors) {
  Origin at;
  at.file = source.name;
  if (source.text.size() > kMaxConfigFile.value()) {
    errors->Add(at, Cat("is larger than ", ToString(kMaxConfigFile),
                        ", write a smaller file"));
    return;
  }
  if (absl::StrContains(source.text, '\0')) {
    errors->Add(at, "contains a NUL byte, write plain text (UTF-8)");
    return;
  }
  at.line = 1;
  try {
    if (const auto second = SecondDocument(source.text)) {
      at.line = second->line + 1;
      const bool marked = LineOf(source.text, second->line).starts_with("---");
      errors->Add(at, marked ? "a second document begins here, remove the line"
                             : "is not YAML: this does not go with what stands "
                               "before it, check indentation (spaces only), "
                               "colons and quotes");
      return;
    }
    ReadDocument(Value(YAML::Load(source.text), at, errors), draft, errors);
  } catch (const YAML::Exception& e) {
    if (e.mark.line >= 0) at.line = e.mark.line + 1;
    errors->Add(at, SyntaxHint(e));
  } catch (const std::exception& e) {
    errors->Add(at, Cat("cannot be read: ", e.what()));
  }
}

absl::StatusOr<Config> FromSources(const std::vector<Source>& sources) {
  Draft draft;
  ConfigErrors errors;
  for (const Source& source : sources) ReadSource(source, &draft, &errors);
  FillDefaults(&draft);
  Validate(draft, &errors);
  HP_RETURN_IF_ERROR(errors.ToStatus());
  return std::move(draft.config);
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::string& path) {
  std::vector<Source> sources;
  HP_ASSIGN_OR_RETURN(std::string main_text, ReadFile(path));
  sources.push_back({path, std::move(main_text)});
  HP_ASSIGN_OR_RETURN(const std::vector<std::string> drop_ins, DropIns(path));
  for (const std::string& drop_in : drop_ins) {
    HP_ASSIGN_OR_RETURN(std::string text, ReadFile(drop_in));
    sources.push_back({drop_in, std::move(text)});
  }
  return FromSources(sources);
}

absl::StatusOr<Config> ParseConfig(std::string_view text,
                                   std::string_view source_name) {
  return FromSources({{std::string(source_name), std::string(text)}});
}

}  // namespace hugepool::server
