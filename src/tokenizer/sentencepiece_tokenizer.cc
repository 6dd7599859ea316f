// Tokenizer::from_sentencepiece: reads a tokenizer.model (the protobuf sentencepiece.ModelProto) directly,
// and only the few fields that encoding needs.
#include <bit>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/decode_steps.h"
#include "tokenizer/pieces.h"
#include "tokenizer/side_files.h"

namespace pagoda {
namespace {

// The fields of one protobuf message, in file order.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : bytes_(bytes) {}

  struct Field {
    std::uint64_t number = 0, value = 0;  // value of varint and fixed fields
    std::string_view bytes;               // value of a length-delimited field
  };
  // False at the end, or if the message is malformed (failed()).
  bool next(Field& field) {
    field = {};
    if (at_ == bytes_.size()) return false;
    std::uint64_t tag = 0;
    if (!varint(tag)) return fail();
    field.number = tag >> 3;
    switch (tag & 7) {
      case 0:
        return varint(field.value) || fail();
      case 1:
        return fixed(8, field.value) || fail();
      case 5:
        return fixed(4, field.value) || fail();
      case 2: {
        std::uint64_t length = 0;
        if (!varint(length) || length > bytes_.size() - at_) return fail();
        field.bytes = bytes_.substr(at_, static_cast<std::size_t>(length));
        at_ += static_cast<std::size_t>(length);
        return true;
      }
      default:
        return fail();
    }
  }
  bool failed() const { return failed_; }

 private:
  bool fail() {
    failed_ = true;
    return false;
  }
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(std::size_t size, std::uint64_t& value) {
    if (bytes_.size() - at_ < size) return false;
    value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[at_ + i])) << (8 * i);
    at_ += size;
    return true;
  }
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

enum ModelType { kUnigram = 1, kBpe = 2, kWordModel = 3, kCharModel = 4 };

struct Model {
  struct Piece {
    std::string_view text;
    float score = 0;
    std::uint64_t type = kNormal;
  };
  std::vector<Piece> pieces;
  std::uint64_t type = kUnigram;
  bool byte_fallback = false;
  std::string_view bos_piece = "<s>", eos_piece = "</s>";
  SentencePieceOptions normalizer;
};

Status malformed(std::string_view what) { return corrupt_data(concat("SentencePiece model: ", what)); }

Result<Model::Piece> read_piece(std::string_view bytes) {
  Model::Piece piece;
  ProtoReader reader(bytes);
  for (ProtoReader::Field field; reader.next(field);) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    if (field.number == 3) piece.type = field.value;
  }
  if (reader.failed() || !is_valid_utf8(piece.text)) return malformed("a piece is malformed");
  return piece;
}

Result<Model> read_model(std::string_view bytes) {
  Model model;
  ProtoReader reader(bytes);
  for (ProtoReader::Field field; reader.next(field);) {
    if (field.number == 1) {
      PAGODA_ASSIGN_OR_RETURN(Model::Piece piece, read_piece(field.bytes));
      model.pieces.push_back(piece);
      if (model.pieces.size() > Vocabulary::kMaxId) return malformed("it has too many pieces");
    } else if (field.number == 2) {
      ProtoReader trainer(field.bytes);
      for (ProtoReader::Field option; trainer.next(option);) {
        if (option.number == 3) model.type = option.value;
        if (option.number == 24) model.normalizer.whitespace_as_suffix = option.value != 0;
        if (option.number == 35) model.byte_fallback = option.value != 0;
        if (option.number == 46) model.bos_piece = option.bytes;
        if (option.number == 47) model.eos_piece = option.bytes;
      }
      if (trainer.failed()) return malformed("its trainer options are malformed");
    } else if (field.number == 3) {
      ProtoReader normalizer(field.bytes);
      for (ProtoReader::Field option; normalizer.next(option);) {
        if (option.number == 2) model.normalizer.charsmap = option.bytes;
        if (option.number == 3) model.normalizer.add_dummy_prefix = option.value != 0;
        if (option.number == 4) model.normalizer.remove_extra_whitespaces = option.value != 0;
        if (option.number == 5) model.normalizer.escape_whitespaces = option.value != 0;
      }
      if (normalizer.failed()) return malformed("its normalizer options are malformed");
    }
  }
  if (reader.failed()) return malformed("it is malformed");
  if (model.pieces.empty()) return malformed("it has no pieces");
  return model;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_sentencepiece(std::string_view bytes,
                                                                 const TokenizerSideFiles& files) {
  PAGODA_ASSIGN_OR_RETURN(const SideTokens side, read_side_files(files));
  PAGODA_ASSIGN_OR_RETURN(Model read, read_model(bytes));
  Model& model = read;
  if (model.type != kUnigram && model.type != kBpe)
    return unimplemented(concat("SentencePiece model: model type ", model.type,
                                " is not supported (supported: 1 Unigram, 2 BPE)"));
  TokenizerParts parts;
  parts.vocabulary = std::make_unique<Vocabulary>();
  const std::size_t count = model.pieces.size();
  parts.vocabulary->reserve(count, bytes.size());
  ScoredBpeOptions bpe;
  UnigramOptions unigram;
  TokenId unknown = -1;
  bool has_unused = false, has_user_defined = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Model::Piece& piece = model.pieces[i];
    const auto id = static_cast<TokenId>(i);
    if (piece.text.empty()) return malformed(concat("piece ", i, " is empty"));
    if (parts.vocabulary->find(piece.text))
      return malformed(concat("piece '", piece.text, "' is there twice"));
    if (!parts.vocabulary->add(piece.text, id)) return malformed("it is too large");
    const bool ordinary = piece.type == kNormal || piece.type == kUserDefined || piece.type == kUnused;
    bpe.scores.push_back(piece.score);
    bpe.can_merge.push_back(ordinary);
    bpe.unused.push_back(piece.type == kUnused);
    unigram.scores.push_back(static_cast<double>(piece.score));
    unigram.usable.push_back(piece.type == kNormal || piece.type == kUserDefined);
    unigram.user_defined.push_back(piece.type == kUserDefined);
    has_unused |= piece.type == kUnused;
    has_user_defined |= piece.type == kUserDefined;
    if (piece.type == kUnknown && unknown < 0) unknown = id;
    if (piece.type == kUnknown || piece.type == kControl) parts.vocabulary->hide(id);
    // BPE never merges across a user-defined piece; Unigram weighs it against all others.
    const bool is_cut = piece.type == kUserDefined && model.type == kBpe;
    if (piece.type == kUnknown || piece.type == kControl || is_cut) {
      AddedToken token;
      token.id = id;
      token.content = token.normalized_content = std::string(piece.text);
      token.special = piece.type != kUserDefined;
      // Matched in the normalized text; words continue around it.
      token.normalized = piece.type == kUserDefined;
      parts.added.add(std::move(token));
    }
    if (piece.type == kUserDefined) model.normalizer.user_defined.emplace_back(piece.text);
  }
  if (unknown < 0) return malformed("it has no unknown piece");
  hide_special(side, *parts.vocabulary);
  const auto control = [&](std::string_view text) -> TokenId {
    const auto id = parts.vocabulary->find(text);
    return id && model.pieces[static_cast<std::size_t>(*id)].type == kControl ? *id : -1;
  };
  parts.bos = control(model.bos_piece);
  parts.eos = control(model.eos_piece);
  // The file does not specify the tokens around a text; the families of Llama and T5 differ in this.
  PostProcessor::Wrap wrap;
  if (model.type == kBpe && parts.bos >= 0) wrap.before.push_back(parts.bos);
  if (model.type == kUnigram && parts.eos >= 0) wrap.after.push_back(parts.eos);
  parts.post_processor.add(std::move(wrap));

  const bool strips_all = model.normalizer.remove_extra_whitespaces;
  const bool strips = model.normalizer.add_dummy_prefix || strips_all;
  if (model.type == kBpe) {
    bpe.unknown = unknown;
    bpe.byte_fallback = model.byte_fallback;
    if (!has_unused) bpe.unused.clear();
    parts.model = make_scored_bpe(*parts.vocabulary, std::move(bpe));
  } else {
    unigram.unknown = unknown;
    unigram.byte_fallback = model.byte_fallback;
    unigram.single_precision = true;
    if (!has_user_defined) unigram.user_defined.clear();
    parts.model = make_unigram(*parts.vocabulary, std::move(unigram));
  }
  PAGODA_ASSIGN_OR_RETURN(parts.normalizer, make_sentencepiece_normalizer(std::move(model.normalizer)));
  std::vector<DecodeStepMakerPtr> steps;
  if (strips) steps.push_back(make_leading_space_decoder(std::string(kMetaspace), strips_all));
  steps.push_back(make_replace_string_decoder(std::string(kMetaspace), " "));
  steps.push_back(make_byte_run_decoder());
  steps.push_back(make_fuse_decoder());
  parts.decoder = Decoder(std::move(steps));
  parts.bytes = TokenizerParts::Bytes::byte_fallback;
  SideTokens raw = side;  // text between added tokens is encoded as a separate text
  for (AddedEntry& entry : raw.listed) entry.token.normalized = false;
  if (Status status = apply_side_tokens(raw, count, true, parts); !status.ok()) return status;
  parts.added.build();
  return std::unique_ptr<Tokenizer>(std::make_unique<PipelineTokenizer>(std::move(parts)));
}

}  // namespace pagoda
