#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pagoda {
namespace {

struct Search {
  std::uintptr_t address = 0;  // an address inside the wanted binary
  std::string found = {};
};

// The build id, as raw bytes, found among the notes of a segment; empty if there is none.
std::string id_in(std::span<const char> notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    constexpr std::size_t kAlign = 4;
    const std::size_t name = sizeof note;
    const std::size_t value = name + (note.n_namesz + kAlign - 1) / kAlign * kAlign;
    const std::size_t end = value + (note.n_descsz + kAlign - 1) / kAlign * kAlign;
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0)
      return {notes.data() + value, note.n_descsz};
    notes = notes.subspan(end);
  }
  return {};
}

int visit(dl_phdr_info* file, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const std::span headers(file->dlpi_phdr, file->dlpi_phnum);
  bool holds = false;
  for (const auto& header : headers)
    holds |= header.p_type == PT_LOAD && search.address >= file->dlpi_addr + header.p_vaddr &&
             search.address < file->dlpi_addr + header.p_vaddr + header.p_memsz;
  if (!holds) return 0;
  for (const auto& header : headers) {
    if (header.p_type != PT_NOTE || !search.found.empty()) continue;
    const std::uintptr_t at = file->dlpi_addr + header.p_vaddr;
    search.found =
        id_in({reinterpret_cast<const char*>(at), header.p_memsz});  // NOLINT(performance-no-int-to-ptr)
  }
  return 1;
}

}  // namespace

std::string build_id() {
  Search search{.address = reinterpret_cast<std::uintptr_t>(&build_id)};
  ::dl_iterate_phdr(visit, &search);
  return search.found;
}

}  // namespace pagoda
