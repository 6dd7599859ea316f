#include "page/page_files.h"

#include <algorithm>

namespace pagoda {

const PageFile* find_page_file(std::string_view path) {
  const std::span<const PageFile> files = page_files();
  const auto file = std::ranges::find(files, path, &PageFile::path);
  return file == files.end() ? nullptr : &*file;
}

}  // namespace pagoda
