#pragma once
// Writes a pagoda_output as JSON, in the form documented at pagoda_next_json. Threads: any.
#include "api/json.h"
#include "library/output_record.h"

namespace pagoda {

void write_output(JsonWriter& json, const OutputRecord& output);

}  // namespace pagoda
