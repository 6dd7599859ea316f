#pragma once
// Options of config.json that no reader asked for: some would change the result and are refused, many change
// nothing, and those that nobody here knows are listed. Of loader/ alone.
#include "loader/config_fields.h"
#include "loader/model_config.h"

namespace pagoda {

// Call it behind the family's reader. `where`: of an object inside, "rope_scaling."; else "".
void sort_unasked(Fields& fields, std::string_view where, ModelConfig& config);

// Of what a GGUF file says under its architecture's name; `name` is what follows it. Whether it says how the
// model computes, so that it must be understood.
bool gguf_option_computes(std::string_view name);

}  // namespace pagoda
