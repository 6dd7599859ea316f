#pragma once
// RotationRule: in models whose rotation of queries and keys depends on how long a sequence may become
// (longrope, dynamic NTK), which one a request gets: fixed when it comes in, so that keys in the cache and
// queries always fit together. Not the angles: those are models/rope_table.h's. Threads: plain data.
#include <cstdint>

namespace pagoda {

struct RotationRule {
  std::int32_t original = 0;  // tokens up to which all are alike; 0: always
  bool by_length = false;     // behind that every length has a rotation of its own; else all have the same

  bool operator==(const RotationRule&) const = default;

  // The rotation of a sequence that may reach `length` tokens. 0: the ordinary one.
  std::int32_t rotation_of(std::int32_t length) const {
    if (original <= 0 || length <= original) return 0;
    return by_length ? length : 1;
  }
};

}  // namespace pagoda
