/** Tokens and costs of the steps of a run on a Tinker server. */
import { cell, checkOptions, refuse } from '@tandem-rl/base'
import { TOKEN_COSTS_OPTIONS } from '../optionKinds.js'
import type { TinkerClient } from './tinkerClient.js'

/** Prices of a million tokens, in any currency. */
export interface TokenPrices {
  /** Of prompts and of passes without gradients. */
  readonly sent: number
  readonly sampled: number
  /** Of passes with gradients. */
  readonly trained: number
}

const MILLION = 1e6

/**
 * Counts the tokens of a client between two calls: the metrics `tokensSent`, `tokensSampled`,
 * `tokensTrained` and, with prices, `cost`.
 *
 * Errors   throws RangeError for prices that are absent, negative or not finite.
 */
export const tokenCosts = (
  client: Pick<TinkerClient, 'counts'>,
  prices?: TokenPrices,
): (() => Readonly<Record<string, number>>) => {
  if (prices !== undefined) {
    checkOptions('tokenCosts', prices, TOKEN_COSTS_OPTIONS)
    refuse(
      'tokenCosts',
      (['sent', 'sampled', 'trained'] as const).map(
        (kind) =>
          !(prices[kind] >= 0 && Number.isFinite(prices[kind])) &&
          `the price of ${kind} must be a number of at least 0, got ${prices[kind]}`,
      ),
    )
  }
  const before = cell(client.counts())
  return () => {
    const [last, now] = [before.get(), client.counts()]
    before.set(now)
    const tokensSent = now.sentTokens - last.sentTokens
    const tokensSampled = now.sampledTokens - last.sampledTokens
    const tokensTrained = now.trainedTokens - last.trainedTokens
    if (prices === undefined) return { tokensSent, tokensSampled, tokensTrained }
    const { sent, sampled, trained } = prices
    const cost = (tokensSent * sent + tokensSampled * sampled + tokensTrained * trained) / MILLION
    return { tokensSent, tokensSampled, tokensTrained, cost }
  }
}
