#include "cli/commands/pull_command.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "base/strings.h"
#include "cli/assembly/default_model.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/hub_settings.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "cli/mib.h"
#include "hub/choose_files.h"
#include "hub/pull.h"
#include "hub/short_names.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

std::string hub_cache() { return hub_paths_from_environment().cache_dirs.front(); }

int no_name(const std::string& name) {
  return fail(
      concat("'", printable(name),
             "' is not a model's name: give ORG/NAME, ORG/NAME:TAG, ORG/NAME@REVISION, or a short name of "
             "`pagoda models`",
             nearest_short_name(name)));
}

std::string spelled(const CachedModel& model) {
  return model.tag.empty() ? model.name : concat(model.name, ":", model.tag);
}

std::string time_text(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts = {};
  char text[32] = "";
  if (gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%FT%TZ", &parts);
  return text;
}

// The files fetched by script/model, followed by those in the hub's cache.
std::vector<CachedModel> all_models() {
  std::vector<CachedModel> models;
  std::error_code error;
  const std::filesystem::path own = cache_directory() + "/models";
  for (std::filesystem::directory_iterator each(own, error), end; !error && each != end;
       each.increment(error)) {
    std::error_code gone;
    if (each->path().extension() != ".gguf" || !each->is_regular_file(gone)) continue;
    const std::string stem = each->path().stem().string(), tag = tag_of(each->path().string());
    CachedModel model{.name = stem, .type = "gguf", .path = each->path().string()};
    if (stem.size() > tag.size() + 1 && stem.ends_with(tag)) {
      model.name = stem.substr(0, stem.size() - tag.size() - 1);
      model.tag = tag;
    }
    model.bytes = static_cast<std::int64_t>(each->file_size(gone));
    struct stat facts = {};
    if (stat(model.path.c_str(), &facts) == 0) model.modified = facts.st_mtime;
    models.push_back(std::move(model));
  }
  std::ranges::sort(models, {}, &CachedModel::name);
  for (CachedModel& model : list_pulled(hub_cache())) models.push_back(std::move(model));
  return models;
}

}  // namespace

std::vector<Flag> pull_flags(PullArgs& args) {
  return {{.positional = "NAME",
           .value = flags::text(args.name, "ORG/NAME[:TAG]"),
           .help = "ORG/NAME[:TAG], a URL on the hub, or a short name of `pagoda models`; TAG selects a GGUF "
                   "file: Q4_K_M",
           .required = true}};
}

std::vector<Flag> list_flags(ListArgs& args) {
  return {{.name = "json", .value = flags::on(args.json), .help = "print JSON instead of a table"}};
}

int run_pull(const PullArgs& args) {
  const auto name = parse_pull_name(args.name);
  if (!name) return no_name(args.name);
  const auto pulled = pull_with_progress(*name);
  if (!pulled) return exit_code(pulled.error());
  const std::string& first = pulled->files.front();
  const bool one_file = first.ends_with(".gguf");
  std::printf("%s\n", one_file ? concat(pulled->snapshot, "/", first).c_str() : pulled->snapshot.c_str());
  return flush_output();
}

int run_list(const ListArgs& args) {
  const std::vector<CachedModel> models = all_models();
  const auto first = default_model();
  if (args.json) {
    boost::json::array rows;
    for (const CachedModel& model : models)
      rows.push_back({{"name", model.name},
                      {"tag", model.tag},
                      {"type", model.type},
                      {"size", model.bytes},
                      {"modified", time_text(model.modified)},
                      {"path", model.path},
                      {"whole", !model.incomplete},
                      {"default", first && model.path == *first}});
    std::printf("%s\n", boost::json::serialize(rows).c_str());
    return flush_output();
  }
  std::int64_t total = 0;
  std::size_t width = 4;
  for (const CachedModel& model : models) width = std::max(width, spelled(model).size());
  const int column = static_cast<int>(width);
  if (!models.empty()) std::printf("%-*s  %-11s  %12s  %s\n", column, "NAME", "TYPE", "SIZE", "MODIFIED");
  for (const CachedModel& model : models) {
    total += model.bytes;
    const std::string note = model.incomplete                ? "  (not whole)"
                             : first && model.path == *first ? "  (default)"
                                                             : "";
    std::printf("%-*s  %-11s  %12s  %s%s\n", column, spelled(model).c_str(), model.type.c_str(),
                mib(model.bytes).c_str(), time_text(model.modified).substr(0, 10).c_str(), note.c_str());
  }
  std::printf("%s in %s and %s/models\n", mib(total).c_str(), hub_cache().c_str(), cache_directory().c_str());
  return flush_output();
}

int run_rm(const PullArgs& args) {
  const auto name = parse_pull_name(args.name);
  if (!name) return no_name(args.name);
  if (name->name.revision != "main")
    return fail(concat("rm removes all revisions of a model: use pagoda rm ", name->name.repository));
  const auto freed = remove_pulled(*name, hub_cache());
  if (!freed) return exit_code(freed.error());
  std::printf("removed %s%s, %s\n", name->name.repository.c_str(),
              name->tag.empty() ? "" : concat(":", name->tag).c_str(), mib(*freed).c_str());
  return flush_output();
}

int run_models(const ModelsArgs&) {
  std::printf("%-24s  %s\n", "NAME", "MODEL");
  std::string_view before;
  for (const ShortName& row : short_names()) {
    // The size is optional for the first row of a name.
    const std::string name =
        row.name == before ? concat(row.name, ":", row.size) : concat(row.name, "[:", row.size, "]");
    std::printf("%-24s  %s\n", name.c_str(), std::string(row.repository).c_str());
    before = row.name;
  }
  std::printf("Any model of the hub has the name ORG/NAME or ORG/NAME:TAG: pagoda pull NAME\n");
  return flush_output();
}

}  // namespace pagoda
