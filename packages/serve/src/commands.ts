/**
 * For everybody who serves from the command line: `tandem` finds its commands `serve` and `capture`
 * here.
 *
 * @module
 */
import type { CommandEntry } from 'tandem-rl/command'

export const commands: readonly CommandEntry[] = [
  {
    name: 'serve',
    summary: "Serve a model over HTTP with vLLM's protocol: completions, chat, tokens in and out.",
    group: 'Serve:',
    examples: [
      'tandem serve models/word-problems --port 8000',
      'tandem serve runs/first --dev --enable-lora',
      'tandem serve --env gsm8k --port 5000',
    ],
    load: async () => {
      const [{ serveCommand }, { startServedEngine }] = await Promise.all([
        import('./commands/serve.js'),
        import('./commands/servedEngine.js'),
      ])
      return serveCommand(startServedEngine)
    },
  },
  {
    name: 'capture',
    summary: "Record agents' sessions: a proxy for any OpenAI client that stores tokens exactly as sampled.",
    group: 'Serve:',
    examples: ['tandem capture --upstream http://127.0.0.1:8000 --model-folder models/policy --out calls.jsonl'],
    load: async () => {
      const [{ captureCommand }, { connectUpstream }, { startServedEngine }] = await Promise.all([
        import('./commands/capture.js'),
        import('./commands/captureUpstream.js'),
        import('./commands/servedEngine.js'),
      ])
      return captureCommand({ connect: connectUpstream, start: startServedEngine })
    },
  },
]
