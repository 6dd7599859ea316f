#pragma once
// RotationRule: selects the rotary embedding of a request in models where it depends on the length that the
// sequence may reach (longrope, dynamic NTK). It is fixed when the request arrives, so that cached keys and
// queries always match. The angles are in models/rope_table.h. Threads: plain data.
#include <cstdint>

namespace pagoda {

struct RotationRule {
  std::int32_t original = 0;  // up to this many tokens all sequences use the same rotation; 0: always
  bool by_length = false;     // beyond `original`, each length has its own rotation; otherwise they share one

  bool operator==(const RotationRule&) const = default;

  // The rotation of a sequence that may reach `length` tokens. 0: the default rotation.
  std::int32_t rotation_of(std::int32_t length) const {
    if (original <= 0 || length <= original) return 0;
    return by_length ? length : 1;
  }
};

}  // namespace pagoda
