#pragma once
// The form that a request asks of its answer, as OpenAI (response_format), vLLM (structured_outputs,
// guided_*), llama.cpp (grammar, json_schema) and SGLang (regex, ebnf) write it -> a GrammarSpec. For all
// protocols. The grammar itself is checked by its compiler. Threads: any.
#include <optional>

#include "api/api_context.h"
#include "api/field_reader.h"
#include "constraint/grammar_spec.h"

namespace pagoda {

// Errors are left in `fields`: two forms at once, a wrong type, or a build without grammars.
std::optional<GrammarSpec> read_grammar(FieldReader& fields, const ApiContext& context);

// One object of response_format's form: {"type": "text" | "json_object" | "json_schema" | "structural_tag",
// …}. The schema may stand in "json_schema", as in chat, or beside the type, as in Responses. Null for text.
std::optional<GrammarSpec> read_response_format(FieldReader& fields, std::string_view name);

// llama.cpp's own: "grammar" (GBNF; an empty one is none) or "json_schema".
std::optional<GrammarSpec> read_llamacpp_grammar(FieldReader& fields);
// Ollama's "format": "json", or a schema as it is; an empty text is none.
std::optional<GrammarSpec> read_ollama_format(FieldReader& fields);

}  // namespace pagoda
