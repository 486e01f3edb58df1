/**
 * `tandem serve` over a scripted engine, as a process of its own: requests that ask for `hold`
 * tokens wait for ever at their second.
 */
import * as TE from 'fp-ts/lib/TaskEither.js'
import { serveCommand } from '../../packages/serve/src/commands/serve.js'
import { CommandError } from '../../src/cli/failure.js'
import { scriptedEngine } from './plannedEngine.js'

const command = serveCommand(({ text, config }, { maxModelLength = 128, maxConcurrent = 4 }) =>
  TE.right({
    engine: scriptedEngine({
      tokenizer: text.tokenizer,
      endToken: config.endTokens[0]!,
      says: () => 'How many',
      beforeToken: ({ id }, t) => (id.includes('hold') && t === 1 ? new Promise(() => {}) : undefined),
      maxModelLength,
      maxConcurrent,
    }),
    readAdapter: () => TE.right({ rank: 1, alpha: 1, tensors: new Map() }),
  }),
)

try {
  await command.parseAsync()
} catch (error) {
  if (!(error instanceof CommandError)) throw error
  console.error(`tandem: ${error.message}`)
  process.exitCode = 1
}
