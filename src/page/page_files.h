#pragma once
// The files of the page at /: HTML, scripts and styles, put into the program by embed.cmake. Not the routes
// (server/page_endpoints.h), and nothing of the engine. Invariants: no two have one path; a file under
// /ui/HASH/ never changes under its path. Threads: any. Owner: the program, for as long as it runs.
#include <span>
#include <string_view>

namespace pagoda {

struct PageFile {
  std::string_view path;  // as asked for: "/" or "/ui/HASH/NAME"
  std::string_view content_type;
  std::string_view tag;  // names its content
  std::string_view plain, gzip;
};

std::span<const PageFile> page_files();
const PageFile* find_page_file(std::string_view path);  // null: there is none

}  // namespace pagoda
