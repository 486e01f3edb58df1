/**
 * Capture proxies for tests: over a scripted engine, with ids that count up and a clock that a test
 * moves.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { type CaptureApp, type CaptureOptions, captureApp, type ServeOptions } from '@tandem-rl/serve'
import type { LLMEngine } from '@tandem-rl/text'
import { servedText } from './served.js'

export const captured = (
  engine: LLMEngine,
  options: CaptureOptions & { readonly serve?: Partial<ServeOptions> } = {},
): CaptureApp => {
  const { serve, ...capture } = options
  let ids = 0
  return captureApp(
    {
      engine,
      model: { names: ['cat'], root: '/models/cat' },
      text: servedText,
      key: keyFromSeed(1),
      features: { toolCalls: 'hermes' },
      ...serve,
      world: { ids: { fresh: () => `id${ids++}` }, calendar: { today: () => new Date(1_700_000_000_000) } },
    },
    { clock: { now: () => 0 }, ...capture },
  )
}
