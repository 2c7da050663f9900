"""What every measure, condition and baseline means: one short exact definition each, with its source.

Formulas are HTML written here, never taken from data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """One entry of the report's definitions."""

    name: str
    """The value of the column `measure`, `condition` or `probe`."""
    title: str
    """What it is called in the page."""
    body: str
    """Definition as HTML."""
    source: str
    """Where it is from."""

    @property
    def anchor(self) -> str:
        """The `id` of the entry in the page."""
        return "def-" + "".join(c if c.isascii() and c.isalnum() else "-" for c in self.name.lower())


def _v(letter: str, index: str) -> str:
    return f"<var>{letter}</var><sub>{index}</sub>"


_ANOVA = (
    "Keep the target word and its position, draw its left and right contexts independently, and write the target's vector "
    f"as <var>h</var> = {_v('h', '0')} + {_v('h', 'L')} + {_v('h', 'R')} + {_v('h', 'LR')} (functional ANOVA). "
    f"With {_v('V', 'u')} the trace of the covariance of {_v('h', 'u')}, summed over targets before the ratio is taken: "
)
_TOTAL = f"({_v('V', 'L')} + {_v('V', 'R')} + {_v('V', 'LR')})"
_EMS = (
    "Estimated on K × K grids of crossed contexts with the expected-mean-squares correction, so that the value does not depend on "
    "K; a negative estimate is kept. Undefined where the variance over contexts is at the numerical floor (the input layer)."
)
_DESIGN = (
    "Four models, LSTM or Transformer, shallow (two one-directional models side by side) or deep (both sides in every layer), on the "
    "same units, the measure that <code>task</code> names, at the top layer: "
)
_FACTORIAL = "2 × 2 factorial design (Fisher 1935)"
_SOBOL = "Generalised Sobol index (Gamboa et al. 2014; Lamboni et al. 2011)"
_VIG = "Vig & Belinkov 2019; Clark et al. 2019 for special tokens"
_WORDS = (
    "Attention between words: summed over the word pieces attended to, averaged over the pieces attended from; attention to special "
    "tokens left out and the rest renormalised as a ratio of sums. "
)
_ATTENTION = f"{_v('a', 'ij')} is the attention of word <var>i</var> to word <var>j</var>. "

_BRUNNER = "Brunner et al. 2020 (hidden token attribution)"
_REACH = (
    "A target word stands in contexts <var>i</var> of unrelated sentences, with the same number of words and pieces on each side; "
    f"{_v('h', 'i')} is its vector. "
)

_CLOZE = "Candidates are words that are one entry of every model’s output vocabulary; n counts sentences, over which the intervals are."

_KLAFKA = "compare Klafka & Ettinger 2020"

_DEFINITIONS = (
    Definition(
        "direction_share_left",
        "Left share",
        _ANOVA
        + f"{_v('S', 'L')} = {_v('V', 'L')} / {_TOTAL}: the part of the variance over contexts that the left context alone "
        "explains. " + _EMS,
        _SOBOL,
    ),
    Definition(
        "direction_share_right",
        "Right share",
        _ANOVA + f"{_v('S', 'R')} = {_v('V', 'R')} / {_TOTAL}: the part that the right context alone explains. " + _EMS,
        _SOBOL,
    ),
    Definition(
        "direction_share_interaction",
        "Interaction share",
        _ANOVA
        + f"{_v('S', 'LR')} = {_v('V', 'LR')} / {_TOTAL}: the part that only left and right together explain. It is exactly 0 "
        "for a concatenation of two one-directional models, at every layer and for every linear mix of layers. " + _EMS,
        _SOBOL,
    ),
    Definition(
        "direction_share_interaction_slope",
        "Slope of the interaction share",
        f"Least-squares slope of {_v('S', 'LR')} over the contextual layers 1..L, in share per layer; every resample of targets gives a "
        "whole curve and so a slope. Above 0: the interaction grows with depth on the whole, though not at every step. Not drawn: in the table "
        "of statements.",
        _SOBOL,
    ),
    Definition(
        "contextual_share",
        "Contextual share",
        f"Σ {_TOTAL} / Σ |<var>h</var> − <var>m</var>|<sup>2</sup>, sums over targets, <var>m</var> the mean vector of words in natural "
        "sentences: how much of a vector's distance from the corpus mean is due to its context rather than to the word. Direction shares "
        "divide up this part: shares of a tiny variance mean little.",
        "compare maximum explainable variance, Ethayarajh 2019",
    ),
    Definition(
        "interaction_gap",
        "Interaction gap",
        f"{_v('S', 'LR')} of a model that reads both sides in its layers minus {_v('S', 'LR')} of two one-directional models side by "
        "side, each at its top layer, on the same target words and contexts; every resample of targets is the same for both.",
        _SOBOL,
    ),
    Definition(
        "main_effect_directionality",
        "Main effect of directionality",
        _DESIGN
        + "the mean over architectures of deep minus shallow. Within an architecture the objective changes with the directionality.",
        _FACTORIAL,
    ),
    Definition(
        "main_effect_architecture",
        "Main effect of architecture",
        _DESIGN
        + "the mean over directionalities of Transformer minus LSTM. Within a directionality the input units change with the architecture.",
        _FACTORIAL,
    ),
    Definition(
        "effect_interaction",
        "Interaction of directionality and architecture",
        _DESIGN
        + "deep minus shallow among the Transformers, less the same among the LSTMs: how much more directionality matters there.",
        _FACTORIAL,
    ),
    Definition(
        "mixing_onset",
        "Mixing onset",
        f"The first layer at which left and right interact: the lower bound of {_v('S', 'LR')} is above .01, above the upper bound of the "
        "untrained copy, and above that of layer norm over additive features. No value: no such layer. A decision made from intervals: it has "
        "none of its own, and with more target words it may come earlier.",
        "—",
    ),
    Definition(
        "attention_distance",
        "Attention distance",
        _ATTENTION
        + f"Σ<sub>ij</sub> {_v('a', 'ij')} |<var>i</var> − <var>j</var>| / Σ<sub>ij</sub> {_v('a', 'ij')}, in words. "
        + _WORDS,
        _VIG,
    ),
    Definition(
        "attention_signed_distance",
        "Signed attention distance",
        _ATTENTION
        + f"Σ<sub>ij</sub> {_v('a', 'ij')} (<var>j</var> − <var>i</var>) / Σ<sub>ij</sub> {_v('a', 'ij')}, in words; negative "
        "means to the left. " + _WORDS,
        _VIG,
    ),
    Definition(
        "attention_mass_left",
        "Left attention mass",
        _ATTENTION
        + f"Σ<sub>j&lt;i</sub> {_v('a', 'ij')} / Σ<sub>ij</sub> {_v('a', 'ij')}: the share of attention that goes to words on "
        "the left. " + _WORDS,
        _VIG,
    ),
    Definition(
        "attention_mass_right",
        "Right attention mass",
        _ATTENTION
        + f"Σ<sub>j&gt;i</sub> {_v('a', 'ij')} / Σ<sub>ij</sub> {_v('a', 'ij')}: the share of attention that goes to words on "
        "the right. " + _WORDS,
        _VIG,
    ),
    Definition(
        "attention_mass_self",
        "Attention to the word itself",
        _ATTENTION + f"Σ<sub>i</sub> {_v('a', 'ii')} / Σ<sub>ij</sub> {_v('a', 'ij')}. " + _WORDS,
        _VIG,
    ),
    Definition(
        "attention_mass_special",
        "Attention to special tokens",
        "The share of all attention of words that goes to special tokens such as [CLS] and [SEP]; the other attention measures leave it "
        "out.",
        "Clark et al. 2019",
    ),
    Definition(
        "attention_entropy",
        "Attention entropy",
        "Entropy of a word's renormalised attention over the words of its sentence, in bits, averaged over words (each weighted by its "
        "attention to words). " + _WORDS,
        "Clark et al. 2019; Ghader & Monz 2017",
    ),
    Definition(
        "mask_shift",
        "Mask shift",
        "Σ |<var>h</var>′ − <var>h</var>|<sup>2</sup> over sentences / (2 Σ |<var>h</var> − <var>m</var>|<sup>2</sup> over words), each sum "
        "divided by its number of terms: <var>h</var> is the vector of one word of a sentence, <var>h</var>′ its vector when the mask or a "
        "random word stands in its place, <var>m</var> the mean vector of words. 0: no difference; 1: as far apart as two words picked at "
        "random. Words that are one piece only, as the mask is.",
        "after Devlin et al. 2019, section 3.1",
    ),
    Definition(
        "reach_influence",
        "Influence by offset",
        f"{_REACH}By <em>substitution</em>: Σ mean<sub>i</sub> |{_v('h', 'i')} − {_v('h', 'i')}<sup>(<var>k</var>)</sup>|<sup>2</sup> / "
        f"Σ mean<sub>i&lt;j</sub> |{_v('h', 'i')} − {_v('h', 'j')}|<sup>2</sup>, with {_v('h', 'i')}<sup>(<var>k</var>)</sup> the vector after "
        "the word at offset <var>k</var> was replaced; sums over targets. By <em>gradients</em>: "
        f"Σ |{_v('J', 'k')}| / Σ Σ<sub>j≠0</sub> |{_v('J', 'j')}|, with {_v('J', 'k')} the Jacobian with respect to the "
        "word's input vector. Offset 0 is the word itself.",
        _BRUNNER,
    ),
    Definition(
        "reach_mass_left",
        "Left mass of the reach",
        f"Σ<sub>k&lt;0</sub> {_v('I', 'k')} / Σ<sub>k≠0</sub> {_v('I', 'k')}, {_v('I', 'k')} the influence at offset <var>k</var>: the share of the "
        "influence of all context words that comes from the left.",
        _BRUNNER,
    ),
    Definition(
        "reach_mass_right",
        "Right mass of the reach",
        f"Σ<sub>k&gt;0</sub> {_v('I', 'k')} / Σ<sub>k≠0</sub> {_v('I', 'k')}: the share that comes from the right.",
        _BRUNNER,
    ),
    Definition(
        "reach_distance",
        "Mean distance of the reach",
        f"Σ |<var>k</var>| {_v('I', 'k')} / Σ<sub>k≠0</sub> {_v('I', 'k')}, in words. It depends on how long the contexts are (column "
        "<code>length</code>): compare at equal length.",
        _BRUNNER,
    ),
    Definition(
        "reach_radius_50",
        "Radius holding 50 %",
        f"The smallest whole number <var>r</var> with Σ<sub>0&lt;|k|≤r</sub> {_v('I', 'k')} ≥ 0.5 Σ<sub>k≠0</sub> {_v('I', 'k')}, in words.",
        "—",
    ),
    Definition(
        "reach_radius_90",
        "Radius holding 90 %",
        f"The smallest whole number <var>r</var> with Σ<sub>0&lt;|k|≤r</sub> {_v('I', 'k')} ≥ 0.9 Σ<sub>k≠0</sub> {_v('I', 'k')}, in words.",
        "—",
    ),
    Definition(
        "reach_agreement",
        "Agreement of the two estimators",
        "Spearman's rank correlation over offsets, the word itself left out, between the influence by substitution and that by gradients. They "
        "are different quantities: order is compared, not size. Noise lowers it, in resamples more so: its interval is on the low side.",
        "Spearman 1904",
    ),
    Definition(
        "cloze_nats",
        "Nats per gap",
        "A word is left out of a sentence and the model chooses among candidates that are the same for all models. Mean of −log "
        "<var>P</var>(answer), with <var>P</var> renormalised over the candidates. Lower is better. " + _CLOZE,
        "Taylor 1953",
    ),
    Definition(
        "cloze_top1",
        "Top-1 accuracy at gaps",
        "The share of gaps whose answer is the likeliest candidate. " + _CLOZE,
        "Taylor 1953",
    ),
    Definition(
        "cloze_reciprocal_rank",
        "Mean reciprocal rank at gaps",
        "Mean of 1 / rank of the answer among the candidates; candidates as likely as the answer count half. " + _CLOZE,
        "Voorhees 1999",
    ),
    Definition(
        "cloze_nats_difference",
        "Difference in nats per gap",
        "Nats per gap of a model minus those of the reference model on the same gaps, each by the best use of what it reads (joint, else tuned "
        "mix, else forward); the interval is paired over sentences. Below 0 the model is better than the reference.",
        "—",
    ),
    Definition(
        "cloze_top1_difference",
        "Difference in top-1 accuracy at gaps",
        "Top-1 accuracy of a model minus that of the reference model on the same gaps, each by the best use of what it reads. Above 0 the model "
        "is better than the reference.",
        "—",
    ),
    Definition(
        "cloze_reciprocal_rank_difference",
        "Difference in mean reciprocal rank at gaps",
        "Mean reciprocal rank of a model minus that of the reference model on the same gaps, each by the best use of what it reads. Above 0 "
        "the model is better than the reference.",
        "—",
    ),
    Definition(
        "cloze_mix_weight",
        "Mixing weight",
        "The weight that an ingredient (forward, backward or unigram) has in the tuned mix; interval over sentences of the tuning text, the mix "
        "refitted in each sample by one Newton step.",
        "Genest & Zidek 1986",
    ),
    Definition(
        "accuracy",
        "Accuracy",
        "The share of test items whose label the probe predicts. A linear probe (multinomial logistic regression) is trained for each "
        "layer on frozen vectors; its penalty is chosen on the development split.",
        "Alain & Bengio 2017; Belinkov 2022 (survey)",
    ),
    Definition(
        "macro_f1",
        "Macro F1",
        "The unweighted mean over labels of F1 = 2·precision·recall / (precision + recall).",
        "van Rijsbergen 1979",
    ),
    Definition(
        "span_f1",
        "Span F1",
        "F1 over whole spans: a predicted span counts if its start, end and label are all those of a span in the data.",
        "Tjong Kim Sang & De Meulder 2003",
    ),
    Definition(
        "cross_entropy",
        "Cross-entropy",
        "Mean over test items of −log<sub>2</sub> of the probability that the probe gives the true label, in bits. Lower is better.",
        "Shannon 1948",
    ),
    Definition(
        "selectivity",
        "Selectivity",
        "Accuracy on the task minus accuracy on its control task, at the same layer. High selectivity says that the vectors hold the "
        "label; a probe that can memorise words scores on both.",
        "Hewitt & Liang 2019",
    ),
    Definition(
        "parameters",
        "Parameters",
        "All trained numbers of the network that gives the vectors, counted from its configuration without loading weights; tied ones "
        "count once. A head for predicting words is not part of it, unless the model's own file keeps it in.",
        "—",
    ),
    Definition(
        "parameters_without_embeddings",
        "Parameters without embeddings",
        "The same without tables of word, piece, position and segment vectors and without an output vocabulary. A character CNN, which "
        "computes word vectors, counts.",
        "Kaplan et al. 2020",
    ),
    Definition(
        "flops_per_word",
        "Operations per word",
        "Floating-point operations of reading a sentence of so many words, divided by them: 2 for every multiplication and addition of a "
        "matrix product or convolution, by closed formulas for the architecture and for the pieces it reads. For a Transformer "
        f"{_v('a', '1')} <var>N</var> + {_v('a', '2')} <var>N</var><sup>2</sup> for <var>N</var> pieces, for an LSTM proportional to "
        "<var>N</var>. A character CNN computes every different word once.",
        "Kaplan et al. 2020; Vaswani et al. 2017, table 1",
    ),
    Definition(
        "flops_exponent",
        "Exponent of operations",
        "<var>a</var> in operations ~ length<sup><var>a</var></sup>: least-squares slope of the logarithm of operations per sentence on "
        "the logarithm of its words. 1 is linear, 2 quadratic.",
        "—",
    ),
    Definition(
        "append_flops",
        "Operations of one more word",
        "Operations that bring every word's vector up to date after one word was added at the end, when everything that stays valid was "
        "kept: keys and values of a left-to-right Transformer, the last state of a left-to-right LSTM, context-free vectors. What reads to "
        "the right is run again.",
        "—",
    ),
    Definition(
        "append_share",
        "Share of the work that one more word costs",
        "Operations of one more word over those of reading the longer sentence from nothing, a ratio of sums over texts. 1: everything is "
        "computed again.",
        "—",
    ),
    Definition(
        "words_to_loss",
        "Words to a loss",
        "Words read in training until the held-out loss was so many nats under the unigram entropy of the held-out text; between two "
        "evaluations along a line. Missing where it never was. From the learning curve that lies beside the model.",
        "—",
    ),
    Definition("steps_to_loss", "Steps to a loss", "The same in steps of the optimizer. Not drawn: in the table.", "—"),
    Definition(
        "states_surviving",
        "States that survive",
        "Share of states that move by no more than 100 machine epsilons of a typical vector's length when the sentence is edited. A state is "
        "one word's vector at one layer, in each half where a model has halves; <em>whole</em> counts the states of both halves. Not measured "
        "in half precision, where 100 machine epsilons are more than many an edit moves a state.",
        "—",
    ),
    Definition(
        "append",
        "Edit: append",
        "One word more at the end of the sentence: its own next word.",
        "—",
    ),
    Definition(
        "insert",
        "Edit: insert",
        "One word more before a word drawn at random; words are compared with themselves, wherever they now stand.",
        "—",
    ),
    Definition(
        "replace",
        "Edit: replace",
        "Another word in place of one drawn at random, which is itself not compared.",
        "—",
    ),
    Definition(
        "configuration",
        "From a configuration",
        "Counted from a published model's hyper-parameters: no weights, no text, one piece per word, every word of a character CNN at full "
        "length.",
        "—",
    ),
    Definition("penalty", "Penalty", "The weight of the probe's L2 penalty, chosen on the development split.", "—"),
    Definition("seconds", "Seconds", "Wall-clock time of the step on the machine of this run.", "—"),
    Definition(
        "words_per_second", "Words per second", "Words of the data set divided by the wall-clock time of the step.", "—"
    ),
    Definition(
        "reading_speed",
        "Reading speed",
        "Words per second of reading a batch of sentences of one length, words in and top-layer vectors out: geometric mean over repeats, "
        "interval of Student's t of the log speed over repeats.",
        "—",
    ),
    Definition(
        "time_exponent",
        "Exponent of time",
        "<var>a</var> in seconds ~ length<sup><var>a</var></sup> over the lengths from the one given on: mean over repeats of the "
        "least-squares slope of log seconds on log length, interval of Student's t over repeats. Fixed costs of a pass make it smaller than the exponent of "
        "operations.",
        "—",
    ),
    Definition(
        "peak_tensor_memory",
        "Peak tensor memory",
        "Largest number of bytes held at one time by the tensors made while a batch is read, every operation seen as it is dispatched; "
        "weights and the scratch space inside an operation are not counted.",
        "—",
    ),
    Definition("peak_memory", "Peak memory", "Largest resident memory of the process up to the end of the step.", "—"),
    Definition(
        "crossed",
        "Sampling: crossed",
        "Left and right contexts are taken from <em>disjoint</em> sentences that share the target word, with both side lengths held fixed "
        "in the model's own tokens, and combined in full grids.",
        "—",
    ),
    Definition(
        "crossed standardised",
        "Sampling: crossed, standardised",
        "As crossed, with every dimension divided by its standard deviation over the natural corpus, so that a few dimensions of "
        "large variance do not decide the shares.",
        "compare Timkey & van Schijndel 2021",
    ),
    Definition(
        "layer-normed additive",
        "Control: layer norm of additive features",
        f"The interaction share of layer norm applied to the purely additive part {_v('h', '0')} + {_v('h', 'L')} + {_v('h', 'R')} of the "
        "same grids: the interaction that a normalisation alone would make.",
        "—",
    ),
    Definition(
        "natural",
        "Sampling: natural",
        "Left and right contexts from the same sentences. They depend on each other, which biases the shares: for comparison only.",
        "—",
    ),
    Definition(
        "resampled",
        "Sampling: resampled words",
        "As crossed, with every word of the contexts replaced by a random word of the corpus that has as many word pieces, drawn by "
        "frequency: contexts without syntax, topic or collocations.",
        "—",
    ),
    Definition(
        "masked",
        "Sides masked",
        "Another estimand. In each sentence either side is present or masked (the mask token; where a model has none, its unknown token or a "
        "word of no vocabulary). With the four vectors of a sentence: squared main effects of the left and of the right side and of their "
        f"interaction, {_v('Q', 'L')} = |{_v('E', 'L')}|<sup>2</sup>/4, {_v('Q', 'R')} alike, {_v('Q', 'LR')} = |<var>d</var>|<sup>2</sup>/16 with "
        "<var>d</var> = both − left only − right only + neither. The shares divide up their sum, the variance over the four cells; these are "
        "effects of presence, not variances over contexts.",
        "2 × 2 factorial design (Fisher 1935)",
    ),
    Definition(
        "by word class",
        "By class of the target word",
        "Mode crossed, for the target words of one class: content or function words, or one UPOS tag (the word's most frequent one).",
        "—",
    ),
    Definition(
        "by context length",
        "By length of context",
        "Mode crossed, for the same target words with different numbers of words on each side.",
        "—",
    ),
    Definition(
        "scalar mix",
        "Scalar mix of all layers",
        f"Shares of the sum Σ {_v('s', 'l')} {_v('h', 'l')} over all layers (equal weights, if no others are given). For two one-directional "
        "models side by side it is as additive as each layer.",
        "Peters et al. 2018",
    ),
    Definition(
        "scalar mix layer-normed",
        "Scalar mix of normalised layers",
        "The same after layer norm of each layer over all words and dimensions of the sentence. The deviation depends on both sides, so "
        "that an interaction appears which no layer has.",
        "Peters et al. 2018 (there over the whole batch)",
    ),
    Definition(
        "over seeds",
        "Spread over training seeds",
        "Mean over models trained from different seeds; the interval runs from the smallest to the largest, and n counts the seeds.",
        "—",
    ),
    Definition(
        "uniform",
        "Baseline: uniform attention",
        "The same measure for attention spread evenly over the pieces that the head may attend to (of two models side by side: that its own "
        "model may), special tokens included, in the same sentences; taken to words like measured attention. Long sentences alone give long distances; the baseline shows how long.",
        "—",
    ),
    Definition(
        "norm-weighted",
        "Attention: weighted by norms",
        f"In each head, the attention between pieces times the norm of what is read, |<var>f</var>({_v('x', 'j')})| with <var>f</var>(<var>x</var>) = "
        f"(<var>x</var>{_v('W', 'V')} + {_v('b', 'V')}){_v('W', 'O')}; rows renormalised to 1, then taken to words. Heads put spare attention where "
        "they read next to nothing, which plain maps count in full. The baseline is that of plain attention.",
        "Kobayashi et al. 2020",
    ),
    Definition(
        "rollout",
        "Attention: rollout",
        f"{_v('R', 'l')} = {_v('B', 'l')}{_v('R', 'l−1')}, {_v('R', '0')} = <var>I</var>, with {_v('B', 'l')} = ({_v('A', 'l')} + <var>I</var>) / 2 and "
        f"{_v('A', 'l')} the mean of the layer’s maps over heads, between pieces, special tokens included; then taken to words. It follows attention "
        "down to the input as if attention and the residual connection were all that happens, and belongs to a layer, not to a head.",
        "Abnar & Zuidema 2020",
    ),
    Definition(
        "rollout uniform",
        "Baseline: rollout of uniform attention",
        "The rollout of a model in which every head spreads its attention evenly over the pieces that it may attend to. The residual connection "
        "alone leaves every word much of itself, and layers alone carry far: the baseline shows how much and how far.",
        "—",
    ),
    Definition(
        "given as the mask",
        "Target given as the mask",
        "The model's mask stands in the place of the word, as for most of the words that a masked language model is trained to predict.",
        "Devlin et al. 2019",
    ),
    Definition(
        "given as a random word",
        "Target given as a random word",
        "Another word of the corpus, picked at random, stands in the place of the word.",
        "Devlin et al. 2019",
    ),
    Definition(
        "substitution",
        "Influence: by substitution",
        "A context word is replaced by other words of the corpus, drawn by frequency among those with as many pieces. 1 is as much as changing "
        "everything but the target and its position.",
        "compare Khandelwal et al. 2018",
    ),
    Definition(
        "gradient",
        "Influence: by gradients",
        "Frobenius norm of the Jacobian of the target's vector with respect to a word's input vector: the root of its square, estimated "
        "by random projections and jackknifed over them. 1 is as much as all context words together.",
        _BRUNNER,
    ),
    Definition(
        "unigram",
        "Cloze: unigram",
        "No context: the frequency of the word in a text (one added to each count), or, without counts, the model’s own mean prediction over other gaps.",
        "—",
    ),
    Definition(
        "forward",
        "Cloze: forward",
        "<var>P</var>(<var>w</var> | <var>L</var>): the words to the left of the gap, read by a left-to-right model. Over word pieces, the probability "
        "of the word’s piece times that of no piece carrying it on.",
        "—",
    ),
    Definition(
        "backward",
        "Cloze: backward",
        "<var>P</var>(<var>w</var> | <var>R</var>): the words to the right of the gap, read by a right-to-left model.",
        "—",
    ),
    Definition(
        "product",
        "Cloze: corrected product",
        "Two one-directional models combined: proportional to <var>P</var>(<var>w</var> | <var>L</var>) <var>P</var>(<var>w</var> | <var>R</var>) / "
        "<var>P</var>(<var>w</var>), exact where left and right are independent given the word.",
        "—",
    ),
    Definition(
        "tuned mix",
        "Cloze: tuned mix",
        "Two one-directional models combined as well as a weight for each allows: proportional to <var>P</var>(<var>w</var> | "
        "<var>L</var>)<sup><var>a</var></sup> <var>P</var>(<var>w</var> | <var>R</var>)<sup><var>b</var></sup> "
        "<var>P</var>(<var>w</var>)<sup><var>c</var></sup>, with the weights that give the fewest nats on other sentences.",
        "Genest & Zidek 1986",
    ),
    Definition(
        "joint",
        "Cloze: joint",
        "<var>P</var>(<var>w</var> | <var>L</var>, <var>R</var>) of a masked language model, with one mask in the gap.",
        "Devlin et al. 2019",
    ),
    Definition(
        "held_out_loss",
        "Held-out loss",
        "Mean of −log probability of the predicted word or word piece on text not trained on, under the model's own training objective, "
        "with the full softmax; in nats. Shipped with the bundled models.",
        "—",
    ),
    Definition(
        "held_out_masked_loss",
        "Masked held-out loss",
        "The held-out loss with 15 % of the units predicted, every one of them masked, whatever the model was trained with: the one "
        "evaluation of all masked variants.",
        "Devlin et al. 2019",
    ),
    Definition("unigram_loss", "Unigram loss", "The held-out loss of the training text's word frequencies.", "—"),
    Definition(
        "training_words", "Words read in training", "Words read in training; one that is read again counts again.", "—"
    ),
    Definition("training_passes", "Passes", "Words read in training, divided by the words of the training text.", "—"),
    Definition(
        "training_seconds",
        "Seconds of training",
        "Wall time of the training steps, evaluations and checkpoints left out.",
        "—",
    ),
    Definition(
        "training_words_per_second",
        "Training speed",
        "Words per second of training steps, over a whole training or over single steps with rows of one length.",
        "—",
    ),
    Definition(
        "single steps",
        "Steps of equal words",
        "Each training step reads 1,024 words, in rows of one length.",
        "—",
    ),
    Definition(
        "control",
        "Control task",
        "Every word type gets one random label, drawn from the task's label distribution and kept for all its occurrences. What a probe scores "
        "here it has memorised.",
        "Hewitt & Liang 2019",
    ),
    Definition("majority", "Baseline: majority", "Always the most frequent training label.", "—"),
    Definition(
        "word_type",
        "Baseline: word type",
        "The most frequent training label of the word itself, without context (the majority label for unseen words); words are compared as they are, case and all.",
        "—",
    ),
    Definition(
        "neighbour_bits",
        "Bits about a neighbour",
        "A linear probe (penalty chosen on dev) predicts a property of the word at an offset from this word's vector: held-out mean of "
        "−log<sub>2</sub> of the label's share in training, minus the same of the probability the probe gives it. Below 0 the probe does worse "
        "than knowing nothing. <var>n</var> counts test sentences. Bits are not access: a model that is trained to predict the next word holds "
        "bits about it without having seen it.",
        _KLAFKA,
    ),
    Definition(
        "neighbour_accuracy",
        "Accuracy on a neighbour",
        "Share of pairs of words whose label the probe of the word at that offset predicts; a label that training lacks is an error. Not drawn: in "
        "the downloaded table only.",
        _KLAFKA,
    ),
    Definition(
        "neighbour_gain",
        "Gain over layer 0",
        "Bits about a neighbour minus those of layer 0, which knows the word and no context, paired over sentences.",
        _KLAFKA,
    ),
    Definition(
        "neighbour_selectivity",
        "Selectivity on a neighbour",
        "Accuracy on a neighbour minus accuracy on the control task, in which every type of neighbour has one random label.",
        "Hewitt & Liang 2019",
    ),
    *(
        Definition(
            f"neighbour_{what}_{side}",
            f"{title} on the {side}",
            f"Sum of {words} over the offsets of the {side} side, as far as the length says.",
            _KLAFKA,
        )
        for what, title, words in (
            ("bits", "Bits", "the bits about a neighbour"),
            ("gain", "Gain", "the gains over layer 0"),
        )
        for side in ("left", "right")
    ),
    Definition(
        "neighbour_asymmetry",
        "Right minus left",
        "Bits on the right minus bits on the left, over the same offsets, paired over sentences.",
        _KLAFKA,
    ),
    Definition(
        "conjunction_bits",
        "Bits about cues",
        "Sentences with two binary cues, one on each side of a target word, each balanced given everything else: frame, target and fillers, which "
        "come in all four combinations. Read from the target's vector: the left cue, the right cue, both (AND), and whether they differ (parity, "
        "XOR). Held-out mean of −log<sub>2</sub> of the label's share in training, minus the same of the probability the reader gives it; at most "
        "1 bit, for AND .811. Train, dev and test share frames, targets and function words, and no other word that fills a frame. Cues that are nouns are "
        "new in test; those that are function words (polarity, pronouns, verbs and determiners that agree in number) are the same in all three, and "
        "a reader may know them by heart. If the vector is a sum or a concatenation of what the two sides "
        "contribute, the best linear reader of the parity has 0 bits. Below .02 at the upper bound counts as none. <var>n</var> counts items of "
        "four sentences; frames are held fixed.",
        "Minsky & Papert 1969 (parity)",
    ),
    Definition(
        "conjunction_accuracy",
        "Accuracy on cues",
        "Share of test sentences read right. A linear reader may reach .75 on the parity by luck of its threshold: trust the bits. Not drawn: in "
        "the downloaded table only.",
        "Minsky & Papert 1969 (parity)",
    ),
    Definition(
        "mlp",
        "Perceptron",
        "The linear reader of all labels at once, with one hidden layer of rectified units that they share, stopped where each label's cross-entropy on "
        "dev is lowest. It says what is present; the linear probe what is already combined.",
        "compare Hewitt & Liang 2019",
    ),
    *(
        Definition(name, f"Cues: {name}", body, "—")
        for name, body in (
            ("agreement", "Left cue: number of the subject; right cue: number of another noun."),
            ("polarity", "Either cue: affirmed or denied (<i>always</i>, <i>never</i>; <i>with</i>, <i>without</i>)."),
            (
                "sense",
                "Either cue: words of nature or of human works, around a target that can mean either (<i>plant</i>).",
            ),
            ("coreference", "Left cue: gender of a person; right cue: gender of a pronoun or person."),
        )
    ),
)

DEFINITIONS: dict[str, Definition] = {definition.name: definition for definition in _DEFINITIONS}
"""Name -> definition, in the order of the page."""


def definitions_for(names: Iterable[str]) -> list[Definition]:
    """The definitions of the given measures, conditions and baselines, in the order of the page.

    A measure without an entry gets one that says so: the page never uses a name that it does not list.
    """
    wanted = list(dict.fromkeys(names))
    known = [definition for name, definition in DEFINITIONS.items() if name in wanted]
    unknown = [
        Definition(name, name, "This version of the report holds no definition of it.", "—")
        for name in wanted
        if name not in DEFINITIONS
    ]
    return known + unknown


def measure_label(name: str) -> str:
    """What a measure is called on an axis or in a sentence."""
    return DEFINITIONS[name].title if name in DEFINITIONS else name
