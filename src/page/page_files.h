#pragma once
// The files of the page at /: HTML, scripts and styles, embedded in the program by embed.cmake. The routes
// are in server/page_endpoints.h. Invariants: paths are distinct; a path under /ui/HASH/ never changes its
// content. Threads: any. Lifetime: static.
#include <span>
#include <string_view>

namespace pagoda {

struct PageFile {
  std::string_view path;  // as requested: "/" or "/ui/HASH/NAME"
  std::string_view content_type;
  std::string_view tag;  // ETag of the content
  std::string_view plain, gzip;
};

std::span<const PageFile> page_files();
const PageFile* find_page_file(std::string_view path);  // null if there is none

}  // namespace pagoda
