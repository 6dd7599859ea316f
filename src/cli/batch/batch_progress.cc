#include "cli/batch/batch_progress.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <filesystem>

#include "base/strings.h"
#include "cli/exit_code.h"

namespace pagoda {
namespace {

constexpr std::string_view kPrefix = "batch_req_";

// Returns the input line that an answer belongs to; 0 if it is not an answer.
std::int64_t line_of(const boost::json::value& answer) {
  const boost::json::object* object = answer.if_object();
  const boost::json::value* id = object == nullptr ? nullptr : object->if_contains("id");
  if (id == nullptr || !id->is_string()) return 0;
  const std::string_view text(id->as_string());
  std::int64_t line = 0;
  if (!text.starts_with(kPrefix)) return 0;
  const auto [end, error] = std::from_chars(text.data() + kPrefix.size(), text.data() + text.size(), line);
  return error == std::errc{} && end == text.data() + text.size() ? line : 0;
}

}  // namespace

std::string batch_id(std::int64_t line) { return concat(kPrefix, line); }

Result<BatchProgress> BatchProgress::open(const std::string& path) {
  BatchProgress progress;
  progress.path_ = path;
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return invalid_argument(file_failure("read", path));
    std::int64_t number = 0;
    std::uintmax_t whole = 0;  // bytes of complete lines
    for (std::string line; std::getline(file, line) && !file.eof();) {
      whole += line.size() + 1;
      ++number;
      boost::system::error_code bad;
      const boost::json::value answer = boost::json::parse(line, bad, {}, {.max_depth = 256});
      const std::int64_t of = bad ? 0 : line_of(answer);
      if (of <= 0)
        return invalid_argument(
            concat(path, " line ", number, " is not an answer of run-batch: give another --output"));
      const boost::json::value* custom = answer.as_object().if_contains("custom_id");
      progress.custom_ids_[of] =
          custom != nullptr && custom->is_string() ? std::string(custom->as_string()) : "";
    }
    if (whole < std::filesystem::file_size(path, error)) std::filesystem::resize_file(path, whole, error);
    if (error) return invalid_argument(concat("cannot write ", path, ": ", error.message()));
  }
  progress.file_.open(path, std::ios::binary | std::ios::app);
  if (!progress.file_) return invalid_argument(file_failure("write", path));
  return progress;
}

Status BatchProgress::check(std::int64_t line, std::string_view custom_id) const {
  const auto known = custom_ids_.find(line);
  if (known == custom_ids_.end() || known->second == custom_id) return {};
  return invalid_argument(concat(path_, " has the answers to another input: its line ", line, " is '",
                                 known->second, "', in the input it is '", custom_id, "'"));
}

Status BatchProgress::write(std::string_view line) {
  file_.write(line.data(), static_cast<std::streamsize>(line.size()));
  file_.put('\n');
  file_.flush();
  if (!file_) return internal_error(file_failure("write", path_));
  return {};
}

}  // namespace pagoda
