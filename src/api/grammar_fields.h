#pragma once
// The fields in which a request constrains its answer -> a GrammarSpec: those of OpenAI (response_format),
// vLLM (structured_outputs, guided_*), llama.cpp (grammar, json_schema) and SGLang (regex, ebnf). For all
// protocols. The grammar itself is checked when it is compiled. Threads: any.
#include <optional>

#include "api/api_context.h"
#include "api/field_reader.h"
#include "constraint/grammar_spec.h"

namespace pagoda {

// Errors are reported through `fields`: two constraints at once, a wrong type, or a build without grammars.
std::optional<GrammarSpec> read_grammar(FieldReader& fields, const ApiContext& context);

// One object in the form of response_format: {"type": "text" | "json_object" | "json_schema" |
// "structural_tag", …}. The schema may be inside "json_schema", as in chat, or beside the type, as in
// Responses. nullopt for text.
std::optional<GrammarSpec> read_response_format(FieldReader& fields, std::string_view name);

// llama.cpp's fields: "grammar" (GBNF; empty means none) or "json_schema".
std::optional<GrammarSpec> read_llamacpp_grammar(FieldReader& fields);
// Ollama's "format": "json" or a schema; an empty string means none.
std::optional<GrammarSpec> read_ollama_format(FieldReader& fields);

}  // namespace pagoda
