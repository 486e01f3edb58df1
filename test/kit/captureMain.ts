/**
 * `tandem capture` over a scripted engine, as a process of its own. With HOLD=1 every completion
 * waits for ever at its second token.
 */
import * as TE from 'fp-ts/lib/TaskEither.js'
import { captureCommand } from '../../packages/serve/src/commands/capture.js'
import { connectUpstream } from '../../packages/serve/src/commands/captureUpstream.js'
import { CommandError } from '../../src/cli/failure.js'
import { scriptedEngine } from './plannedEngine.js'

const command = captureCommand({
  start: ({ text, config }) =>
    TE.right({
      engine: scriptedEngine({
        tokenizer: text.tokenizer,
        endToken: config.endTokens[0]!,
        says: () => 'How many',
        beforeToken: (_, t) => (t === 1 && process.env.HOLD === '1' ? new Promise(() => {}) : undefined),
      }),
      readAdapter: () => TE.left({ _tag: 'AdapterFailure', reason: 'there are no adapters here' }),
    }),
  connect: (upstream) => connectUpstream({ ...upstream, model: 'cat', apiKey: null }),
})

try {
  await command.parseAsync()
} catch (error) {
  if (!(error instanceof CommandError)) throw error
  console.error(`tandem: ${error.message}`)
  process.exitCode = 1
}
