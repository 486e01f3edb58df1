/** Detects from log-probabilities whether a server computes them before or after temperature. */
import { type HttpFailure, type HttpRequest, parseJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { ServerLogProbs } from '../../generation/policy/knownModes.js'
import { sendTo, type VLLMServer } from './calls.js'
import { SAMPLING_PATHS } from './wireRequest.js'

/**
 * At temperature 0.5, gaps between log-probabilities are twice as large after temperature as
 * before.
 */
const TEMPERATURE = 0.5

const COUNT = 5

/** Smallest conclusive gap. */
const LEAST_GAP = 0.05

const sampled = z.object({
  choices: z
    .array(z.object({ logprobs: z.object({ top_logprobs: z.array(z.record(z.string(), z.number())).min(1) }) }))
    .min(1),
})

const given = z.object({
  choices: z
    .array(
      z.object({ prompt_logprobs: z.array(z.record(z.string(), z.object({ logprob: z.number() })).nullable()).min(2) }),
    )
    .min(1),
})

/** Returns the gap between the most and the least probable of the first tokens. */
const gapOf = (logProbs: readonly number[]): number => {
  const [first, ...rest] = [...logProbs].sort((a, b) => b - a).slice(0, COUNT)
  return (first ?? 0) - (rest.at(-1) ?? first ?? 0)
}

const read = <T>(schema: z.ZodType<T>, text: string): T | null => {
  const json = parseJson(text)
  const parsed = E.isLeft(json) ? undefined : schema.safeParse(json.right)
  return parsed?.success === true ? parsed.data : null
}

const rawGap = (text: string): number | null => {
  const place = read(given, text)?.choices[0]?.prompt_logprobs[1]
  return place == null ? null : gapOf(Object.values(place).map(({ logprob }) => logprob))
}

const sampledGap = (text: string): number | null => {
  const place = read(sampled, text)?.choices[0]?.logprobs.top_logprobs[0]
  return place === undefined ? null : gapOf(Object.values(place))
}

/**
 * Compares the most probable tokens after one token in a prompt, which are always raw, with those
 * of sampling at temperature 1/2.
 *
 * Errors   `Left(HttpFailure)` if the server does not respond. A refusal gives `undecided`.
 * Effects  two requests of one token each.
 */
export const probeLogProbs = async (
  server: VLLMServer,
  model: string,
): Promise<E.Either<HttpFailure, ServerLogProbs | 'undecided'>> => {
  const shared = { model, max_tokens: 1, top_k: 0, top_p: 1, min_p: 0, return_tokens_as_token_ids: true }
  const ask = (json: object) => {
    const request: HttpRequest = { method: 'POST', path: SAMPLING_PATHS.completions, json, repeat: 'fresh' }
    return sendTo(server, request)()
  }
  const before = await ask({ ...shared, prompt: [0, 1], temperature: 0, prompt_logprobs: COUNT })
  const after = E.isLeft(before)
    ? before
    : await ask({ ...shared, prompt: [0], temperature: TEMPERATURE, seed: 0, logprobs: COUNT })
  if (E.isLeft(after)) {
    const { status } = after.left
    return status === 400 || status === 422 ? E.right('undecided') : after
  }
  const [raw, reported] = [E.isLeft(before) ? null : rawGap(before.right.text), sampledGap(after.right.text)]
  if (raw === null || reported === null || raw < LEAST_GAP) return E.right('undecided')
  return E.right(reported > 1.5 * raw ? 'processed' : 'raw')
}
