#include "model_runner/pooling_model.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/json_object.h"

namespace pagoda {
namespace {

namespace json = boost::json;

std::string_view text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

bool is_true(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value != nullptr && value->is_bool() && value->get_bool();
}

std::string_view last_part(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::optional<PoolingType> pooling_named(std::string_view name) {
  if (name == "LAST" || name == "last" || name == "lasttoken") return PoolingType::last;
  if (name == "MEAN" || name == "mean") return PoolingType::mean;
  if (name == "CLS" || name == "cls") return PoolingType::first;
  return std::nullopt;
}

// `name`: the PyTorch class name.
Result<VectorActivation> activation_named(std::string_view name, std::string_view where) {
  struct Known {
    std::string_view name;
    VectorActivation activation;
  };
  static constexpr std::array kKnown = std::to_array<Known>({{"Identity", VectorActivation::none},
                                                             {"Tanh", VectorActivation::tanh},
                                                             {"ReLU", VectorActivation::relu},
                                                             {"GELU", VectorActivation::gelu},
                                                             {"SiLU", VectorActivation::silu},
                                                             {"Sigmoid", VectorActivation::sigmoid},
                                                             {"Softmax", VectorActivation::softmax}});
  for (const Known& known : kKnown)
    if (known.name == last_part(name)) return known.activation;
  return unimplemented(concat(where,
                              ": the activation is not supported; supported: Identity, Tanh, ReLU, "
                              "GELU, SiLU, Sigmoid, Softmax"));
}

bool is_folder_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.find_first_of("/\\\0", 0, 3) == std::string_view::npos &&
         name != "." && name != "..";
}

class Reading {
 public:
  Reading(const ModelSource& source, bool encoder, const PoolingWishes& wishes)
      : source_(source), wishes_(wishes) {
    model_.type = encoder ? PoolingType::first : PoolingType::last;
    declared_ = encoder;
  }

  Status read() {
    if (const std::optional<std::string> text = source_.side_file("config.json")) {
      PAGODA_ASSIGN_OR_RETURN(auto config, parse_json_object(*text, "config.json"));
      PAGODA_RETURN_IF_ERROR(read_config(config));
    }
    if (const std::optional<std::string> text = source_.side_file("modules.json"))
      PAGODA_RETURN_IF_ERROR(read_modules(*text));
    if (source_.gguf() != nullptr) PAGODA_RETURN_IF_ERROR(read_gguf(*source_.gguf()));
    if (!wishes_.overrides.empty()) PAGODA_RETURN_IF_ERROR(read_overrides());
    if (!wishes_.pooler_config.empty()) PAGODA_RETURN_IF_ERROR(read_pooler_config());
    return ok_status();
  }

  bool declared() const { return declared_; }
  PoolingModel& model() { return model_; }
  const std::vector<std::string>& answer_texts() const { return answer_texts_; }

 private:
  void classify() {
    model_.kind = WorkKind::score;
    declared_ = true;
  }

  Status read_config(const json::object& config) {
    const json::value* list = config.if_contains("architectures");
    const bool named = list != nullptr && list->is_array() && !list->get_array().empty() &&
                       list->get_array().front().is_string();
    if (!named ||
        !std::string_view(list->get_array().front().get_string()).ends_with("ForSequenceClassification"))
      return ok_status();
    classify();
    std::size_t num_labels = 2;  // transformers' default
    if (const json::value* labels = config.if_contains("id2label");
        labels != nullptr && labels->is_object()) {
      num_labels = std::min<std::size_t>(labels->get_object().size(), 65536);
      for (std::size_t i = 0; i < num_labels; ++i) {
        const std::string_view label = text_of(labels->get_object(), std::to_string(i));
        model_.labels.push_back(label.empty() ? concat("LABEL_", i) : std::string(label));
      }
    } else if (const json::value* count = config.if_contains("num_labels");
               count != nullptr && count->is_int64() && count->get_int64() > 0) {
      num_labels = static_cast<std::size_t>(count->get_int64());
    }
    if (text_of(config, "classifier_pooling") == "mean") model_.type = PoolingType::mean;  // ModernBERT
    model_.score_activation = num_labels == 1 ? VectorActivation::sigmoid : VectorActivation::softmax;
    const std::string_view problem = text_of(config, "problem_type");
    if (problem == "regression") model_.score_activation = VectorActivation::none;
    if (problem == "multi_label_classification") model_.score_activation = VectorActivation::sigmoid;
    std::string_view function = text_of(config, "sbert_ce_default_activation_function");
    if (const json::value* own = config.if_contains("sentence_transformers");
        own != nullptr && own->is_object())
      function = text_of(own->get_object(), "activation_fn");
    if (function.empty()) return ok_status();
    PAGODA_ASSIGN_OR_RETURN(model_.score_activation, activation_named(function, "config.json"));
    return ok_status();
  }

  // Reads sentence-transformers' list of modules, each with a folder.
  Status read_modules(std::string_view text) {
    boost::system::error_code error;
    const json::value value = json::parse(json::string_view(text.data(), text.size()), error);
    if (error || !value.is_array()) return corrupt_data("modules.json is not a JSON array");
    bool normalize = false, pools = false;
    for (const json::value& each : value.get_array()) {
      if (!each.is_object()) return corrupt_data("modules.json: a module is not an object");
      const std::string_view kind = last_part(text_of(each.get_object(), "type")),
                             folder = text_of(each.get_object(), "path");
      if (kind == "Transformer") continue;
      if (kind == "Normalize") {
        normalize = true;
        continue;
      }
      if (!is_folder_name(folder)) return corrupt_data("modules.json: a module's path is not a folder name");
      const std::string where = concat(folder, "/config.json");
      const std::optional<std::string> written = source_.side_file(where);
      if (kind == "Pooling") {
        if (!written) return not_found(concat(where, " is missing, but modules.json names it"));
        PAGODA_RETURN_IF_ERROR(read_pooling(*written, where));
        pools = true;
      } else if (kind == "Dense") {
        if (!written) return not_found(concat(where, " is missing, but modules.json names it"));
        if (!pools)  // ColBERT
          return unimplemented(
              "modules.json: a vector for each token (Dense before Pooling) is not supported");
        PAGODA_ASSIGN_OR_RETURN(auto config, parse_json_object(*written, where));
        PAGODA_ASSIGN_OR_RETURN(auto activation,
                                activation_named(text_of(config, "activation_function"), where));
        model_.dense.push_back({std::string(folder), activation});
      } else {
        return unimplemented(
            "modules.json: a module is not supported; supported: Transformer, Pooling, Dense, "
            "Normalize");
      }
    }
    model_.normalize = normalize;
    return ok_status();
  }

  Status read_pooling(std::string_view text, const std::string& where) {
    PAGODA_ASSIGN_OR_RETURN(auto config, parse_json_object(text, where));
    std::vector<PoolingType> asked;
    if (is_true(config, "pooling_mode_cls_token")) asked.push_back(PoolingType::first);
    if (is_true(config, "pooling_mode_mean_tokens")) asked.push_back(PoolingType::mean);
    if (is_true(config, "pooling_mode_lasttoken")) asked.push_back(PoolingType::last);
    if (const auto named = pooling_named(text_of(config, "pooling_mode"))) asked.push_back(*named);
    if (asked.size() != 1)
      return unimplemented(
          concat(where, ": this pooling is not supported; supported: cls, mean, last token"));
    model_.type = asked.front();
    declared_ = true;
    return ok_status();
  }

  Status read_gguf(const GgufFile& file) {
    const std::string key = concat(*file.string("general.architecture"), ".pooling_type");
    switch (file.integer(key).value_or(0)) {
      case 0:
        return ok_status();
      case 1:
        model_.type = PoolingType::mean;
        break;
      case 2:
        model_.type = PoolingType::first;
        break;
      case 3:
        model_.type = PoolingType::last;
        break;
      case 4:
        classify();
        model_.score_activation = VectorActivation::sigmoid;
        break;
      default:
        return unimplemented(concat("GGUF metadata '", key, "' names a pooling type that is not supported"));
    }
    declared_ = true;
    return ok_status();
  }

  Status read_overrides() {
    PAGODA_ASSIGN_OR_RETURN(auto overrides, parse_json_object(wishes_.overrides, "--hf-overrides"));
    for (const auto& [name, value] : overrides) {
      if (name == "classifier_from_token") {
        const json::array* list = value.if_array();
        if (list == nullptr || list->size() != 2 ||
            !std::ranges::all_of(*list, [](const json::value& each) { return each.is_string(); }))
          return unimplemented("--hf-overrides: 'classifier_from_token' must be two tokens' texts");
        for (const json::value& each : *list) answer_texts_.emplace_back(each.get_string());
        classify();
        model_.score_activation = VectorActivation::sigmoid;
        model_.labels.clear();
      }  // otherwise the labels come from config.json
    }
    return ok_status();
  }

  Status read_pooler_config() {
    PAGODA_ASSIGN_OR_RETURN(auto config, parse_json_object(wishes_.pooler_config, "--pooler-config"));
    for (const auto& [name, value] : config) {
      if (name == "pooling_type" || name == "seq_pooling_type") {
        const auto type = value.is_string() ? pooling_named(value.get_string()) : std::nullopt;
        if (!type) return invalid_argument("--pooler-config: 'pooling_type' must be LAST, CLS or MEAN");
        model_.type = *type;
      } else if (name == "normalize" || name == "use_activation") {
        if (!value.is_bool())
          return invalid_argument("--pooler-config: 'use_activation' must be true or false");
        model_.normalize = value.get_bool();
        if (!model_.normalize) model_.score_activation = VectorActivation::none;
      } else {
        return unimplemented("--pooler-config: supported are 'pooling_type' and 'use_activation'");
      }
    }
    return ok_status();
  }

  const ModelSource& source_;
  const PoolingWishes& wishes_;
  PoolingModel model_;
  std::vector<std::string> answer_texts_;
  bool declared_ = false;
};

}  // namespace

Result<std::optional<PoolingModel>> read_pooling_model(const ModelSource& source, bool encoder,
                                                       const PoolingWishes& wishes,
                                                       const TokenLookup& find_token) {
  if (wishes.runner == "generate") return std::optional<PoolingModel>();
  Reading reading(source, encoder, wishes);
  PAGODA_RETURN_IF_ERROR(reading.read());
  if (wishes.runner == "auto" && !reading.declared()) return std::optional<PoolingModel>();
  PoolingModel model = std::move(reading.model());
  if (find_token && !reading.answer_texts().empty()) {
    std::vector<std::int32_t> ids;
    for (const std::string& text : reading.answer_texts()) {
      const auto id = find_token(text);
      if (!id) return invalid_argument("--hf-overrides: 'classifier_from_token' names no token of the model");
      ids.push_back(*id);
    }
    model.answer_tokens = {ids[0], ids[1]};
  }
  return std::optional<PoolingModel>(std::move(model));
}

}  // namespace pagoda
