/** The distribution that a token is drawn from, slowly: every step on all tokens, in float64. */
import type { SamplingParams } from '@tandem-rl/text'
import type { EditContext } from '../../src/modules/generation/sampling/edits.js'

type Row = readonly number[]

const NEVER = Number.NEGATIVE_INFINITY

const sum = (row: Row): number => row.reduce((total, value) => total + value, 0)

export const softmax = (row: Row): Row => {
  const max = Math.max(...row)
  const weights = row.map((logit) => Math.exp(logit - max))
  const mass = sum(weights)
  return weights.map((weight) => weight / mass)
}

/** Ids, most probable first; of equals, the lower first. */
export const ranking = (row: Row): Row => row.map((_, id) => id).sort((a, b) => Math.sign(row[b]! - row[a]!) || a - b)

/** Logits after bans, allowed tokens, bias and penalties: float32, as in vLLM. */
export const oracleLogits = (logits: Float32Array, params: SamplingParams, context: EditContext): Row => {
  const { promptCounts, outputCounts, banned } = context
  return Array.from(logits, (raw, id) => {
    if (banned.includes(id) || (params.allowedTokens !== null && !params.allowedTokens.includes(id))) return NEVER
    const biased = Math.fround(raw + (params.logitBias.get(id) ?? 0))
    const isSeen = promptCounts.has(id) || outputCounts.has(id)
    const penalized = biased > 0 ? biased / params.repetitionPenalty : biased * params.repetitionPenalty
    const repeated = isSeen ? Math.fround(penalized) : biased
    const count = outputCounts.get(id) ?? 0
    return Math.fround(repeated - (count > 0 ? params.frequencyPenalty * count + params.presencePenalty : 0))
  })
}

/** The tokens that stay by a rule, the others without a chance. */
const only = (row: Row, stays: (id: number) => boolean): Row => row.map((logit, id) => (stays(id) ? logit : NEVER))

/** Tokens whose more probable ones have less than p together. */
const nucleus = (row: Row, p: number): Row => {
  const chances = softmax(row)
  const order = ranking(row)
  const before = order.map((_, i) => sum(order.slice(0, i).map((id) => chances[id]!)))
  return only(row, (id) => before[order.indexOf(id)]! < p)
}

/** The probability of each token. */
export const oracleDistribution = (logits: Float32Array, params: SamplingParams, context: EditContext): Row => {
  const edited = oracleLogits(logits, params, context)
  if (params.temperature === 0) return softmax(edited)
  const tempered = edited.map((logit) => logit / params.temperature)
  // p >= minP * pMax, in logarithms
  const probable = only(tempered, (id) => tempered[id]! >= Math.max(...tempered) + Math.log(params.minP))
  const order = ranking(probable)
  const counted = params.topK === 0 ? probable : only(probable, (id) => order.indexOf(id) < params.topK)
  return softmax(params.topP === 1 ? counted : nucleus(counted, params.topP))
}
