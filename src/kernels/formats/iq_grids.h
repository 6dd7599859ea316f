#pragma once
// The points that the numbers in blocks of IQ1, IQ2 and IQ3 types stand for: data of the GGUF format. A point
// has 8 coordinates of 2 bits, of IQ3 types 4 of 4 bits, lowest first; what a coordinate means is the type's
// own. Each table has as many points as its index has values, so no byte of a file can point beside it.
#include <cstdint>

namespace pagoda::formats {

extern const std::uint16_t kIq1Grid[2048];
extern const std::uint16_t kIq2XxsGrid[256], kIq2XsGrid[512], kIq2SGrid[1024];
extern const std::uint16_t kIq3XxsGrid[256], kIq3SGrid[512];

}  // namespace pagoda::formats
