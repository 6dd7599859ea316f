#pragma once
// The points that the indices in blocks of IQ1, IQ2 and IQ3 types refer to: data of the GGUF format. A point
// has 8 coordinates of 2 bits (IQ3 types: 4 of 4 bits), lowest first; each type defines the meaning of a
// coordinate. Each table has one point per value of its index, so no byte of a file can refer to a point
// outside it.
#include <cstdint>

namespace pagoda::formats {

extern const std::uint16_t kIq1Grid[2048];
extern const std::uint16_t kIq2XxsGrid[256], kIq2XsGrid[512], kIq2SGrid[1024];
extern const std::uint16_t kIq3XxsGrid[256], kIq3SGrid[512];

}  // namespace pagoda::formats
