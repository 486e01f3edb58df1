/** The probability of a token at every checkpoint of a run. */
import type { TokenLogProb } from 'tandem-rl/generation'
import type { ModelWork } from './modelDesk.js'
import type { ProbabilityLine, ProbabilityRequest, ProgressLine } from './modelProtocol.js'
import { findToken, promptIds, scoredTokens, topTokens } from './modelTokens.js'
import type { OpenModel } from './openModel.js'
import type { ViewedRun } from './viewedRun.js'

/** A sequence of ids: the prompt, then the tokens up to the one in question. */
interface Wanted {
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
}

const requestedIds = async (run: ViewedRun, { text }: OpenModel, body: ProbabilityRequest): Promise<Wanted> => {
  if ('prompt' in body) {
    const prompt = Array.from(promptIds(text, [{ role: 'user', content: body.prompt }]))
    return { prompt, ids: Array.from(text.tokenizer.encode(body.reply)) }
  }
  const { turns, turn, token } = await findToken(run, body)
  const { prompt, ids } = turns[turn]! // found above
  return { prompt, ids: ids.slice(0, token + 1) }
}

/** Returns the temperature of the run's sampling, at which its log-probabilities are recorded. */
export const runTemperature = async (run: ViewedRun): Promise<number> => {
  const { sampling } = (await run.log()).settings
  const isRecord = typeof sampling === 'object' && sampling !== null && 'temperature' in sampling
  return isRecord && typeof sampling.temperature === 'number' ? sampling.temperature : 1
}

const lineOf = (
  model: OpenModel,
  step: number,
  scored: readonly (TokenLogProb & { readonly top: readonly TokenLogProb[] })[],
): ProbabilityLine => {
  const last = scored.at(-1)!
  return {
    type: 'checkpoint',
    step,
    logProb: last.logProb,
    rank: last.rank,
    prefixLogProb: scored.reduce((sum, { logProb }) => sum + logProb, 0),
    top: topTokens(model.text, last.top),
    tokens: topTokens(model.text, scored),
  }
}

/** Yields the log-probability of a token at the initial weights and at every checkpoint. */
export const probabilityLines = (body: ProbabilityRequest) =>
  async function* ({ run, open, signal }: ModelWork): AsyncGenerator<ProgressLine | ProbabilityLine> {
    yield { type: 'progress', message: 'opening the run' }
    const model = await open()
    const { prompt, ids } = await requestedIds(run, model, body)
    if (ids.length === 0) throw new RangeError('the reply has no tokens')
    const temperature = await runTemperature(run)
    for (const step of [0, ...(await run.log()).checkpoints]) {
      const engine = await model.engineAt(step)
      const scored = await scoredTokens(engine, [...prompt, ...ids], { from: prompt.length, temperature, signal })
      if (signal.aborted) return
      yield lineOf(model, step, scored)
    }
  }
