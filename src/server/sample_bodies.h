#pragma once
// For tests only: accepted bodies for every route that takes JSON (BodyForm::json), with as many fields as
// can be combined. A new route needs a body here (route_bodies_test.cc).
#include <string_view>

#include "server/in_process.h"

namespace pagoda {

struct SampleBody {
  std::string_view path;
  std::string_view body;
  Serves serves = Serves::text;
};

inline constexpr SampleBody kSampleBodies[] = {
    {"/v1/completions", R"({"model":"tiny","prompt":["ab",[1,2,3]],"max_tokens":4,"n":2,"best_of":2,
      "temperature":0.5,"top_p":0.9,"top_k":5,"min_p":0.1,"seed":7,"stop":["x","y"],"stop_token_ids":[1],
      "logprobs":2,"prompt_logprobs":1,"echo":true,"logit_bias":{"5":-1.5},"bad_words":["no"],
      "allowed_token_ids":[1,2,3,97,98],"presence_penalty":0.1,"frequency_penalty":0.1,
      "repetition_penalty":1.1,"min_tokens":1,"ignore_eos":true,"skip_special_tokens":true,
      "return_token_ids":true,"priority":1,"cache_salt":"s","prompt_cache_key":"k","prompt_cache_retention":"24h",
      "cache_hint":{"session":"s","ttl":60,"priority":70,"pin_until":1},"request_id":"r","user":"u"})"},
    {"/v1/completions", R"({"model":"tiny","prompt":"ab","suffix":"cd","max_tokens":4,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true},
      "structured_outputs":{"choice":["a","b"]}})"},
    {"/v1/completions", R"({"prompt":[5,6],"max_tokens":3,"use_beam_search":true,"n":2,"beam_width":4,
      "length_penalty":1,"early_stopping":"never","num_beam_groups":2,"diversity_penalty":0.5})"},
    {"/v1/chat/completions", R"({"model":"tiny","max_completion_tokens":8,"messages":[
      {"role":"system","content":"a"},{"role":"user","name":"u","content":[{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function",
       "function":{"name":"f","arguments":"{\"a\":[1,{\"b\":null}]}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"r"},{"role":"user","content":"c"}],
      "tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":
       {"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}},
        "e":{"enum":["x",1]},"u":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["a"],
        "additionalProperties":false}}}],
      "tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"logprobs":true,
      "top_logprobs":2,"stop":"x","stream":true,"stream_options":{"include_usage":true},
      "chat_template_kwargs":{"enable_thinking":true},"documents":[{"title":"t","text":"x"}],
      "reasoning_effort":"low","user":"u","metadata":{"a":"b"}})"},
    {"/v1/chat/completions", R"({"max_tokens":8,"messages":[{"role":"user","content":"a"},
      {"role":"assistant","content":"b"}],"continue_final_message":true,"add_generation_prompt":false,
      "response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":
       {"type":"object","$defs":{"d":{"type":"string","minLength":1,"maxLength":3}},
        "properties":{"a":{"$ref":"#/$defs/d"},"n":{"type":"number","minimum":0,"maximum":9},
         "p":{"type":"string","pattern":"^a+$"}},"required":["a"]}}}})"},
    {"/v1/chat/completions", R"({"max_tokens":8,"messages":[{"role":"user","content":"a"}],
      "structured_outputs":{"structural_tag":{"type":"structural_tag","structures":[{"begin":"<a>",
       "schema":{"type":"object","properties":{"x":{"type":"integer"}}},"end":"</a>"}],"triggers":["<a"]}}})"},
    {"/v1/chat/completions", R"({"max_tokens":8,"messages":[{"role":"user","content":"a"}],
      "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],
      "response_format":{"type":"structural_tag","format":{"type":"tag","begin":"<a>",
       "content":{"type":"json_schema","json_schema":{"type":"object"}},"end":"</a>"}}})"},
    {"/generate", R"({"inputs":"ab","parameters":{"best_of":2,"do_sample":true,"temperature":0.5,"top_k":3,
      "top_p":0.9,"repetition_penalty":1.1,"frequency_penalty":0.1,"max_new_tokens":4,"return_full_text":true,
      "stop":["x"],"truncate":5,"watermark":false,"details":true,"decoder_input_details":true,"seed":7,
      "top_n_tokens":2,"typical_p":1.0},"add_special_tokens":true})"},
    {"/generate_stream", R"({"inputs":"ab","parameters":{"stop_sequences":["x"],"grammar":{"type":"regex",
      "value":"a+"}}})"},
    {"/", R"({"inputs":"ab","stream":true})"},
    {"/v1/chat/completions/input_tokens", R"({"model":"tiny","messages":[{"role":"user","content":"a"}],
      "tools":[{"type":"function","function":{"name":"f"}}]})"},
    {"/tokenize", R"({"model":"tiny","prompt":"ab","add_special_tokens":true,"return_token_strs":true})"},
    {"/tokenize", R"({"messages":[{"role":"user","content":[{"type":"text","text":"b"}]}],
      "add_generation_prompt":true,"tools":[{"type":"function","function":{"name":"f"}}]})"},
    {"/detokenize", R"({"model":"tiny","tokens":[97,98]})"},
    {"/apply-template", R"({"model":"tiny","messages":[{"role":"user","content":"a"}]})"},
    {"/v1/responses", R"({"model":"tiny","instructions":"be","max_output_tokens":8,"stream":true,"store":true,
      "temperature":0.5,"top_p":0.9,"metadata":{"a":"b"},"input":[
      {"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},
      {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],
       "content":[{"type":"reasoning_text","text":"t"}]},
      {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},
      {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"o"}]},
      {"role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]},
       {"type":"refusal","refusal":"no"}]},{"role":"user","content":"b"}],
      "tools":[{"type":"function","name":"f","description":"d","strict":true,"parameters":{"type":"object",
       "properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}],
      "tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":true,"reasoning":{"effort":"low"},
      "include":["message.output_text.logprobs"],"top_logprobs":1})"},
    {"/v1/responses", R"({"input":"a","background":true,"store":true,"text":{"verbosity":"low","format":
      {"type":"json_schema","name":"n","schema":{"type":"object","properties":{"a":{"type":"integer"}}}}}})"},
    {"/v1/responses/input_tokens",
     R"({"model":"tiny","instructions":"be","input":[{"role":"user","content":"a"}],
      "tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]})"},
    {"/v1/messages", R"({"model":"tiny","max_tokens":8,"system":[{"type":"text","text":"a",
      "cache_control":{"type":"ephemeral"}}],"stream":true,"stop_sequences":["x"],"temperature":0.5,"top_k":3,
      "top_p":0.9,"metadata":{"user_id":"u"},"cache_hint":{"session":"s","ttl":60},"thinking":{"type":"enabled","budget_tokens":2048},"messages":[
      {"role":"user","content":[{"type":"text","text":"q"}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
       {"type":"redacted_thinking","data":"x"},{"type":"text","text":"t"},
       {"type":"tool_use","id":"t1","name":"f","input":{"a":[1]}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":false,
       "content":[{"type":"text","text":"r"}]},{"type":"text","text":"and"}]}],
      "tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"array"}}}}],
      "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}})"},
    {"/v1/messages", R"({"model":"tiny","max_tokens":8,"messages":[{"role":"user","content":"q"},
      {"role":"assistant","content":"b"}],"output_config":{"format":{"type":"json_schema",
      "schema":{"type":"object"}}}})"},
    {"/v1/messages/count_tokens", R"({"model":"tiny","system":"s","messages":[{"role":"user","content":[
      {"type":"text","text":"q"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]})"},
    {"/api/generate", R"({"model":"tiny","prompt":"a","system":"s","stream":false,"raw":false,"think":true,
      "format":{"type":"object","properties":{"a":{"type":"integer"}}},"keep_alive":"5m","options":
      {"temperature":0.5,"num_predict":4,"stop":["x"],"seed":1,"top_k":3,"repeat_penalty":1.1,"num_ctx":64}})"},
    {"/api/generate", R"({"model":"tiny:latest","prompt":"a","suffix":"b","options":{"num_predict":4}})"},
    {"/api/chat",
     R"({"model":"tiny","messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},
      {"role":"assistant","content":"","thinking":"hm","tool_calls":[{"id":"c","function":{"name":"f",
       "arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"r"}],"think":"low","format":"json",
      "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],
      "options":{"num_predict":4}})"},
    {"/api/embed", R"({"model":"tiny","input":["a","b"],"truncate":true,"dimensions":2})",
     Serves::embeddings},
    {"/api/embeddings", R"({"model":"tiny","prompt":"a"})", Serves::embeddings},
    {"/api/v1/models/load", R"({"model":"tiny","context_length":64,"flash_attention":true})"},
    {"/api/show", R"({"model":"tiny","name":"tiny","verbose":true})"},
    {"/api/pull", R"({"model":"tiny","name":"tiny","stream":false})"},
    {"/completion", R"({"prompt":["a",5,"b"],"n_predict":4,"stream":true,"stop":["x"],"seed":1,
      "temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"repeat_penalty":1.1,"cache_prompt":true,
      "return_tokens":true,"json_schema":{"type":"object"},"n_probs":2,"mirostat":0,
      "samplers":["top_k","temperature"],"repeat_last_n":64,"dry_multiplier":0,"xtc_probability":0,"typical_p":1,
      "top_n_sigma":-1,"min_keep":0,"n_indent":0,"t_max_predict_ms":0,"timings_per_token":true,
      "response_fields":["content","timings/prompt_n"]})"},
    {"/completion", R"({"prompt":["a",[5,"b"],{"prompt_string":"c"}],"n_predict":4,"n_cmpl":2,"n_probs":2,
      "post_sampling_probs":true})"},
    {"/completion", R"({"prompt":"a","n_predict":4,"grammar":"root ::= \"a\""})"},
    {"/infill", R"({"input_prefix":"a","input_suffix":"b","prompt":"c","n_predict":4,
      "input_extra":[{"filename":"f","text":"t"}]})"},
    {"/v1/embeddings", R"({"model":"tiny","input":["a",[1,2]],"encoding_format":"base64","dimensions":2,
      "truncate_prompt_tokens":5,"user":"u","priority":1,"normalize":true})",
     Serves::embeddings},
    {"/embed", R"({"inputs":["a","b"],"normalize":true,"truncate":true})", Serves::embeddings},
    {"/v2/embed",
     R"({"texts":["a","b"],"input_type":"search_query","embedding_types":["float"],"truncate":"END"})",
     Serves::embeddings},
    {"/embedding", R"({"content":["a","b"],"embd_normalize":2})", Serves::embeddings},
    {"/pooling", R"({"model":"tiny","input":[[1],[2]],"task":"embed","encoding_format":"float"})",
     Serves::embeddings},
    {"/classify", R"({"model":"tiny","input":["a","b"],"activation":false})", Serves::scores},
    {"/score", R"({"model":"tiny","text_1":"a","text_2":["b",{"text":"c"}]})", Serves::scores},
    {"/v1/score", R"({"queries":["a","b"],"documents":["c","d"]})", Serves::embeddings},
    {"/rerank",
     R"({"model":"tiny","query":"a","documents":["b",{"text":"c"}],"top_n":1,"return_documents":true})",
     Serves::scores},
    {"/v1/rerank", R"({"query":"a","documents":["b"]})", Serves::embeddings},
    {"/rerank", R"({"query":"a","texts":["b"],"return_text":true})", Serves::scores},
    {"/v2/rerank", R"({"query":"a","documents":["b"],"max_tokens_per_doc":9})", Serves::scores},
    {"/v1/reranking", R"({"query":"a","documents":["b"],"top_n":1})", Serves::scores},
    {"/admin/prefixes", R"({"name":"p","messages":[{"role":"system","content":"a"}],
      "tools":[{"type":"function","function":{"name":"f"}}]})"},
    {"/admin/prefixes", R"({"name":"q","prompt":[1,2]})"},
    {"/v1/load_lora_adapter", R"({"lora_name":"another","lora_path":"path","load_inplace":true})"},
    {"/v1/unload_lora_adapter", R"({"lora_name":"adapter"})"},
    {"/v1/completions", R"({"model":"adapter","prompt":"ab","max_tokens":4,"lora":[{"id":0,"scale":1}]})"},
    {"/completion", R"({"model":"adapter","prompt":"a","n_predict":4,"lora":[{"id":0,"scale":1}]})"},
};

// A chat template that reads everything that a conversation may have, as models' templates do.
inline constexpr std::string_view kAgentTemplate =
    "{% for t in tools or [] %}{{ t.function.name }}{{ t.function.description }}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}<x>{{ m.role }}{{ m.name }}{{ m.reasoning_content }}"
    "{% if m.content is string %}{{ m.content | trim }}{% else %}"
    "{% for p in m.content or [] %}{{ p.text }}{% endfor %}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}{% for k, v in c.function.arguments | items %}"
    "{{ k }}={{ v | tojson }}{% endfor %}{% endfor %}{{ m.tool_call_id }}\n{% endfor %}"
    "{% if messages[-1].role == 'user' and documents %}{{ documents | tojson }}{% endif %}"
    "{% if add_generation_prompt %}<x>assistant\n{% endif %}";

}  // namespace pagoda
