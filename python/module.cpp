// pagoda._native: the C interface of include/pagoda.h for Python, and nothing more: what vLLM's users know is
// made of it in Python beside this. Whatever waits does so without the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <pagoda.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace {

[[noreturn]] void raise(pagoda_status status) {
  const char* message = pagoda_last_error();
  PyObject* type = PyExc_RuntimeError;
  if (status == PAGODA_INVALID) type = PyExc_ValueError;
  if (status == PAGODA_NOT_FOUND) type = PyExc_FileNotFoundError;
  if (status == PAGODA_UNIMPLEMENTED) type = PyExc_NotImplementedError;
  PyErr_SetString(type, message);
  throw nb::python_error();
}
// The error's sentence is the thread's own, so it is still there once the lock is back.
void check(pagoda_status status) {
  if (status != PAGODA_OK) raise(status);
}

// A text in the interpreter's memory; no copy.
nb::str text_of(const char* text, std::size_t length) { return nb::str(text, length); }
nb::object optional_text(const char* text) {
  return text == nullptr ? nb::none() : nb::object(nb::str(text));
}

nb::list list_of(const std::int32_t* ids, std::size_t count) {
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) list.append(ids[i]);
  return list;
}

// [[(id, rank, logprob, text), …], …] by position.
nb::object positions(const pagoda_logprobs* rows, std::size_t count) {
  if (rows == nullptr) return nb::none();
  nb::list list;
  for (std::size_t i = 0; i < count; ++i) {
    nb::list items;
    for (std::size_t k = 0; k < rows[i].count; ++k) {
      const pagoda_logprob& item = rows[i].items[k];
      items.append(nb::make_tuple(item.id, item.rank, item.logprob, text_of(item.text, item.text_length)));
    }
    list.append(items);
  }
  return list;
}

nb::dict dict_of(const pagoda_output& output) {
  nb::list choices;
  for (std::size_t i = 0; i < output.num_choices; ++i) {
    const pagoda_choice& choice = output.choices[i];
    nb::object stop = optional_text(choice.stop_string);
    if (choice.stop_token >= 0) stop = nb::int_(choice.stop_token);
    choices.append(nb::make_tuple(choice.index, text_of(choice.text, choice.text_length),
                                  list_of(choice.ids, choice.num_ids),
                                  positions(choice.logprobs, choice.num_ids), choice.cumulative_logprob,
                                  optional_text(choice.finish_reason), stop));
  }
  nb::dict dict;
  dict["id"] = output.id;
  dict["finished"] = output.finished != 0;
  dict["status"] = static_cast<int>(output.status);
  dict["message"] = optional_text(output.message);
  dict["choices"] = choices;
  dict["prompt_logprobs"] = positions(output.prompt_logprobs, output.num_prompt_ids);
  dict["num_cached_tokens"] = output.num_cached_tokens;
  dict["body"] = output.body == nullptr ? nb::none() : nb::object(text_of(output.body, output.body_length));
  dict["prompt_token_ids"] = list_of(output.prompt_ids, output.num_prompt_ids);
  return dict;
}

// Threads stay in the process that made them: in a child of fork() an engine can neither run nor be ended.
class Owner {
 public:
  bool is_here() const { return getpid() == process_; }
  void check_here() const {
    if (is_here()) return;
    PyErr_SetString(
        PyExc_RuntimeError,
        "this engine was made before fork(): its threads are in the parent process. Make it in the "
        "child, or start processes with multiprocessing's 'spawn' method");
    throw nb::python_error();
  }

 private:
  const pid_t process_ = getpid();
};

class Engine {
 public:
  Engine(const std::string& model, const std::vector<std::pair<std::string, std::string>>& options) {
    std::vector<pagoda_option> rows;
    for (const auto& [name, value] : options) rows.push_back({name.c_str(), value.c_str()});
    pagoda_status status = PAGODA_OK;
    {
      const nb::gil_scoped_release released;
      status = pagoda_engine_create(model.c_str(), rows.data(), rows.size(), &engine_);
    }
    check(status);
  }
  ~Engine() { close(); }
  Engine(const Engine&) = delete;

  void close() {
    pagoda_engine* const last = std::exchange(engine_, nullptr);
    if (!owner_.is_here()) return;
    const nb::gil_scoped_release released;
    pagoda_engine_destroy(last);
  }
  pagoda_engine* get() const {
    owner_.check_here();
    if (engine_ == nullptr) throw nb::value_error("the engine has been shut down");
    return engine_;
  }

  nb::list tokenize(const std::string& text, bool add_special_tokens) const {
    std::int32_t* ids = nullptr;
    std::size_t count = 0;
    check(pagoda_tokenize(get(), text.data(), text.size(), add_special_tokens, &ids, &count));
    nb::list list = list_of(ids, count);
    pagoda_free(ids);
    return list;
  }
  nb::str detokenize(const std::vector<std::int32_t>& ids, bool skip_special_tokens) const {
    char* text = nullptr;
    std::size_t length = 0;
    check(pagoda_detokenize(get(), ids.data(), ids.size(), skip_special_tokens, &text, &length));
    return take(text, length);
  }
  nb::str apply_chat_template(const std::string& body) const {
    char* text = nullptr;
    std::size_t length = 0;
    check(pagoda_apply_chat_template(get(), body.c_str(), &text, &length));
    return take(text, length);
  }

  nb::dict facts() const {
    pagoda_facts facts;
    check(pagoda_get_facts(get(), &facts, sizeof facts));
    nb::dict dict;
    dict["model"] = facts.model;
    dict["architecture"] = facts.architecture;
    dict["scheduler"] = facts.scheduler;
    dict["scheduling_policy"] = facts.scheduling_policy;
    dict["kv_manager"] = facts.kv_manager;
    dict["max_model_len"] = facts.max_model_len;
    dict["max_num_seqs"] = facts.max_num_seqs;
    dict["vocab_size"] = facts.vocab_size;
    dict["kv_cache_bytes"] = facts.kv_cache_bytes;
    dict["kv_cache_tokens"] = facts.kv_cache_tokens;
    dict["weight_bytes"] = facts.weight_bytes;
    dict["num_threads"] = facts.num_threads;
    dict["bos_token_id"] = facts.bos_token_id;
    dict["eos_token_id"] = facts.eos_token_id;
    dict["pad_token_id"] = facts.pad_token_id;
    return dict;
  }
  nb::dict stats() const {
    pagoda_engine* const engine = get();
    pagoda_stats stats;
    pagoda_status status = PAGODA_OK;
    {
      const nb::gil_scoped_release released;
      status = pagoda_get_stats(engine, &stats, sizeof stats);
    }
    check(status);
    nb::dict dict;
#define PAGODA_ROW(name) dict[#name] = stats.name
    PAGODA_ROW(block_size), PAGODA_ROW(num_blocks), PAGODA_ROW(num_free_blocks);
    PAGODA_ROW(num_running), PAGODA_ROW(num_waiting), PAGODA_ROW(num_swapped);
    PAGODA_ROW(total_slots), PAGODA_ROW(token_slots), PAGODA_ROW(reserved_slots);
    PAGODA_ROW(internal_slots), PAGODA_ROW(external_slots), PAGODA_ROW(cached_slots);
    PAGODA_ROW(blocks_in_use), PAGODA_ROW(blocks_without_sharing);
    PAGODA_ROW(num_steps), PAGODA_ROW(num_batched_tokens), PAGODA_ROW(num_preemptions);
    PAGODA_ROW(num_blocks_copied), PAGODA_ROW(num_blocks_swapped_out), PAGODA_ROW(num_blocks_swapped_in);
#undef PAGODA_ROW
    return dict;
  }

  nb::str token_text(std::int32_t id) const {
    char* text = nullptr;
    std::size_t length = 0;
    check(pagoda_token_text(get(), id, &text, &length));
    return take(text, length);
  }
  std::int32_t token_id(const std::string& text) const {
    std::int32_t id = -1;
    check(pagoda_token_id(get(), text.data(), text.size(), &id));
    return id;
  }

  void sleep(std::int32_t level, const std::string& mode) const {
    unlocked([&](pagoda_engine* engine) { return pagoda_sleep(engine, level, mode.c_str()); });
  }
  // No tags: all.
  void wake_up(const std::string& tags) const {
    unlocked(
        [&](pagoda_engine* engine) { return pagoda_wake_up(engine, tags.empty() ? nullptr : tags.c_str()); });
  }
  bool is_sleeping() const {
    std::int32_t sleeps = 0;
    check(pagoda_is_sleeping(get(), &sleeps));
    return sleeps != 0;
  }
  void reset_prefix_cache() const {
    unlocked([](pagoda_engine* engine) { return pagoda_reset_prefix_cache(engine); });
  }
  nb::str metrics() const {
    char* text = nullptr;
    std::size_t length = 0;
    check(pagoda_get_metrics(get(), &text, &length));
    return take(text, length);
  }

 private:
  template <class Call>
  void unlocked(const Call& call) const {
    pagoda_engine* const engine = get();
    pagoda_status status = PAGODA_OK;
    {
      const nb::gil_scoped_release released;
      status = call(engine);
    }
    check(status);
  }
  static nb::str take(char* text, std::size_t length) {
    nb::str copy = text_of(text, length);
    pagoda_free(text);
    return copy;
  }
  pagoda_engine* engine_ = nullptr;
  const Owner owner_;
};

class Queue {
 public:
  explicit Queue(const Engine& engine) { check(pagoda_queue_create(engine.get(), &queue_)); }
  ~Queue() { close(); }
  Queue(const Queue&) = delete;

  void close() {
    pagoda_queue* const last = std::exchange(queue_, nullptr);
    if (!owner_.is_here()) return;
    const nb::gil_scoped_release released;
    pagoda_queue_destroy(last);
  }

  // The request's number; None: too many wait.
  nb::object submit_text(const std::string& text, const std::string& params) const {
    return submit([&](std::uint64_t* id) {
      return pagoda_submit_text(queue_, text.data(), text.size(), params.c_str(), id);
    });
  }
  nb::object submit_ids(const std::vector<std::int32_t>& ids, const std::string& params) const {
    return submit([&](std::uint64_t* id) {
      return pagoda_submit_ids(queue_, ids.data(), ids.size(), params.c_str(), id);
    });
  }
  nb::object submit_chat(const std::string& messages, const std::string& params) const {
    return submit(
        [&](std::uint64_t* id) { return pagoda_submit_chat(queue_, messages.c_str(), params.c_str(), id); });
  }
  nb::object submit_call(const std::string& path, const std::string& body) const {
    return submit(
        [&](std::uint64_t* id) { return pagoda_submit_call(queue_, path.c_str(), body.c_str(), id); });
  }
  bool abort(std::uint64_t id) const {
    owner_.check_here();
    const pagoda_status status = pagoda_abort(queue_, id);
    if (status == PAGODA_NOT_FOUND) return false;
    check(status);
    return true;
  }
  // None: nothing came in time.
  nb::object next(std::int64_t timeout_ms) const {
    owner_.check_here();
    pagoda_output* output = nullptr;
    pagoda_status status = PAGODA_OK;
    {
      const nb::gil_scoped_release released;
      status = pagoda_next(queue_, timeout_ms, &output);
    }
    if (status == PAGODA_TIMEOUT || status == PAGODA_IDLE) return nb::none();
    check(status);
    nb::dict dict = dict_of(*output);
    pagoda_output_free(output);
    return dict;
  }

 private:
  template <class Call>
  nb::object submit(Call&& call) const {
    owner_.check_here();
    std::uint64_t id = 0;
    pagoda_status status = PAGODA_OK;
    {
      const nb::gil_scoped_release released;
      status = call(&id);
    }
    if (status == PAGODA_BUSY) return nb::none();
    check(status);
    return nb::int_(id);
  }
  pagoda_queue* queue_ = nullptr;
  const Owner owner_;
};

}  // namespace

NB_MODULE(_native, module) {
  nb::set_leak_warnings(false);  // objects left by an interpreter that ends are its own affair
  module.def("version", [] { return pagoda_version(); });
  nb::class_<Engine>(module, "Engine")
      .def(nb::init<const std::string&, const std::vector<std::pair<std::string, std::string>>&>())
      .def("close", &Engine::close)
      .def("tokenize", &Engine::tokenize)
      .def("detokenize", &Engine::detokenize)
      .def("apply_chat_template", &Engine::apply_chat_template)
      .def("facts", &Engine::facts)
      .def("stats", &Engine::stats)
      .def("token_text", &Engine::token_text)
      .def("token_id", &Engine::token_id)
      .def("sleep", &Engine::sleep)
      .def("wake_up", &Engine::wake_up)
      .def("is_sleeping", &Engine::is_sleeping)
      .def("reset_prefix_cache", &Engine::reset_prefix_cache)
      .def("metrics", &Engine::metrics);
  nb::class_<Queue>(module, "Queue")
      .def(nb::init<const Engine&>())
      .def("close", &Queue::close)
      .def("submit_text", &Queue::submit_text)
      .def("submit_ids", &Queue::submit_ids)
      .def("submit_chat", &Queue::submit_chat)
      .def("submit_call", &Queue::submit_call)
      .def("abort", &Queue::abort)
      .def("next", &Queue::next);
}
