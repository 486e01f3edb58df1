import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { vLLMServer } from '../../../../src/modules/remote/vllm/calls.js'
import { probeLogProbs } from '../../../../src/modules/remote/vllm/probeLogProbs.js'
import { answeredBy, type WireReply } from '../../../kit/wire.js'

const RAW = [-0.1, -3, -4, -5, -6]

const normalized = (logits: readonly number[]): readonly number[] => {
  const mass = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0))
  return logits.map((logit) => logit - mass)
}

const byId = <T>(values: readonly T[], name: (i: number) => string) =>
  Object.fromEntries(values.map((value, i) => [name(i), value]))

/** A server whose distribution is known, and which tells it in one way. */
const server = (raw: readonly number[], told: (raw: readonly number[]) => readonly number[], sampled?: WireReply) =>
  vLLMServer({
    transport: answeredBy(async ({ json }) => {
      const isPrompt = 'prompt_logprobs' in (json as object) // every request of the probe is an object
      if (!isPrompt && sampled !== undefined) return sampled
      const place = byId(
        raw.map((logprob) => ({ logprob, rank: 1 })),
        String,
      )
      const top = byId(told(raw), (i) => `token_id:${i}`)
      const choice = isPrompt ? { prompt_logprobs: [null, place] } : { logprobs: { top_logprobs: [top] } }
      return { status: 200, text: JSON.stringify({ choices: [choice] }) }
    }),
  })

describe('probeLogProbs', () => {
  it('distinguishes log-probabilities before and after temperature', async () => {
    expect(
      orThrow(
        await probeLogProbs(
          server(RAW, (raw) => raw),
          'm',
        ),
      ),
    ).toBe('raw')
    const halved = (raw: readonly number[]) => normalized(raw.map((x) => x / 0.5))
    expect(orThrow(await probeLogProbs(server(RAW, halved), 'm'))).toBe('processed')
  })

  it('reports that it cannot decide: a flat distribution, a refusal, an answer without numbers', async () => {
    expect(
      orThrow(
        await probeLogProbs(
          server([-1, -1, -1], (raw) => raw),
          'm',
        ),
      ),
    ).toBe('undecided')
    for (const status of [400, 200]) {
      const odd = server(RAW, (raw) => raw, { status, text: '{}' })
      expect(orThrow(await probeLogProbs(odd, 'm'))).toBe('undecided')
    }
  })

  it('fails without a response', async () => {
    const silent = vLLMServer({ transport: answeredBy(async () => ({ kind: 'unreachable' })) })
    expect(await probeLogProbs(silent, 'm')).toMatchObject({ left: { kind: 'unreachable' } })
  })
})
