#pragma once
// A pagoda_output as JSON text, in the form that pagoda_next_json documents. Threads: any.
#include "api/json.h"
#include "library/output_record.h"

namespace pagoda {

void write_output(JsonWriter& json, const OutputRecord& output);

}  // namespace pagoda
