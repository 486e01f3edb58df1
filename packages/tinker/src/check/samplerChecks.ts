/** Checks of log-probabilities: of the trainer, of the sampler, and of both. */
import { orThrow } from '@tandem-rl/base'
import type { TinkerSampler } from '../client/sampler.js'
import type { TinkerTrainer } from '../client/trainer.js'
import type { SampledSequence } from '../protocol/values.js'
import { type Bench, type CheckOutcome, checkWithin, gapOf, logProbsOf, TEXTS, trained } from './measure.js'

const sampledOf = async (sampler: TinkerSampler, temperature: 0 | 1): Promise<SampledSequence> =>
  orThrow(await sampler.sample(TEXTS[0], { maxTokens: 6, seed: 1, temperature })()).sequences[0]!

const samplerOf = async (trainer: TinkerTrainer): Promise<TinkerSampler> => orThrow(await trainer.sampler()())

const listOf = (logProbs: ArrayLike<number> | null): readonly number[] => Array.from(logProbs ?? [Number.NaN])

/** The gap of sampled tokens between the log-probabilities of the sampler and the trainer. */
const sampledGap = async (trainer: TinkerTrainer): Promise<number> => {
  const { tokens, logProbs } = await sampledOf(await samplerOf(trainer), 1)
  const own = await logProbsOf(trainer, [...TEXTS[0], ...tokens])
  return gapOf(own.slice(TEXTS[0].length - 1), listOf(logProbs))
}

const logProbAlignment = async ({ model }: Bench): Promise<CheckOutcome> =>
  checkWithin(await sampledGap(await model()), 1e-4, [
    'the sampler and the trainer give the same log-probabilities',
    'the log-probabilities of the sampler and the trainer differ',
  ])

const samplerDrift = async ({ model }: Bench): Promise<CheckOutcome> =>
  checkWithin(await sampledGap(await trained(await model(), 5)), 1e-4, [
    'after 5 steps, the sampler has the weights of the trainer',
    'after 5 steps, the sampler and the trainer differ',
  ])

const promptLogProbs = async ({ model }: Bench): Promise<CheckOutcome> => {
  const trainer = await model()
  const scored = orThrow(await (await samplerOf(trainer)).logProbs(TEXTS[0])())
  const gap = gapOf(
    await logProbsOf(trainer),
    scored.slice(1).map((x) => x ?? Number.NaN),
  )
  return checkWithin(gap, 1e-4, [
    'the sampler gives the log-probabilities of a prompt',
    'the log-probabilities of a prompt are those of other weights or tokens',
  ])
}

const samplerWeights = async ({ model }: Bench): Promise<CheckOutcome> => {
  const trainer = await model()
  const sampler = await samplerOf(trainer)
  const before = await sampledOf(sampler, 0)
  await trained(trainer, 3)
  const after = await sampledOf(sampler, 0)
  const gap = gapOf(listOf(before.logProbs), listOf(after.logProbs))
  return checkWithin(gap, 1e-6, [
    'a sampler keeps its weights while the model is trained',
    'a sampler has the weights of now, not those that it was made with',
  ])
}

const equalRequests = async ({ model }: Bench): Promise<CheckOutcome> => {
  const trainer = await model()
  return checkWithin(gapOf(await logProbsOf(trainer), await logProbsOf(trainer)), 1e-6, [
    'equal requests have equal log-probabilities',
    'equal requests have other log-probabilities: dropout or noise',
  ])
}

const longSequences = async ({ model, maxContextLength }: Bench): Promise<CheckOutcome> => {
  const length = Math.min(maxContextLength ?? 1024, 2048)
  const tokens = Array.from({ length }, (_, i) => (i * 7) % 97)
  const logProbs = await logProbsOf(await model(), tokens)
  const finite = logProbs.filter((x) => Number.isFinite(x) && x <= 0).length
  return {
    verdict: finite === length - 1 ? 'as expected' : 'differs',
    finding: `${finite} of ${length - 1} log-probabilities are finite`,
    numbers: { length, finite },
  }
}

/** Checks by name. */
export const SAMPLER_CHECKS = {
  'equal requests': equalRequests,
  'log-prob alignment': logProbAlignment,
  'sampler drift': samplerDrift,
  'weights of a sampler': samplerWeights,
  'log-probs of a prompt': promptLogProbs,
  'long sequences': longSequences,
} as const
