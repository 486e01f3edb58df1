/** The commands of `tandem`. A command is imported only when it runs, so that the others cost no start-up time. */
import type { Command } from 'commander'

/** A command before it is loaded. */
export interface CommandEntry {
  readonly name: string
  /** One sentence for `tandem --help`. */
  readonly summary: string
  /** Imports the command and makes its options. Those of recipes depend on the arguments. */
  readonly load: (args: readonly string[]) => Promise<Command>
}

export const COMMANDS: readonly CommandEntry[] = [
  {
    name: 'train',
    summary: 'Train a model with a recipe.',
    load: async (args) => (await import('./train.js')).trainCommand(args),
  },
  {
    name: 'eval',
    summary: 'Evaluate a model with the evaluators of a recipe.',
    load: async (args) => (await import('./eval.js')).evalCommand(args),
  },
  {
    name: 'bench',
    summary: 'Benchmark the steps of a recipe.',
    load: async (args) => (await import('./bench.js')).benchCommand(args),
  },
  {
    name: 'agent',
    summary: 'Play the agent of a recipe and print its events.',
    load: async (args) => (await import('./agent.js')).agentCommand(args),
  },
  {
    name: 'sample',
    summary: 'Sample completions of a question.',
    load: async () => (await import('./sample.js')).sampleCommand(),
  },
  {
    name: 'replay',
    summary: 'Repeat one step of a run and print the differences. The run is not changed.',
    load: async () => (await import('./replay.js')).replayCommand(),
  },
  {
    name: 'serve',
    summary: "Serve a model over HTTP with vLLM's protocol: completions, chat, tokens in and out.",
    load: async () => {
      const [{ serveCommand }, { startServedEngine }] = await Promise.all([
        import('./serve.js'),
        import('./servedEngine.js'),
      ])
      return serveCommand(startServedEngine)
    },
  },
  {
    name: 'worker',
    summary: 'Play rollouts of a recipe for a remote trainer.',
    load: async (args) => (await import('./worker.js')).workerCommand(args),
  },
  {
    name: 'capture',
    summary: "Record agents' sessions: a proxy for any OpenAI client that stores tokens exactly as sampled.",
    load: async () => {
      const [{ captureCommand }, { connectUpstream }, { startServedEngine }] = await Promise.all([
        import('./capture.js'),
        import('./captureUpstream.js'),
        import('./servedEngine.js'),
      ])
      return captureCommand({ connect: connectUpstream, start: startServedEngine })
    },
  },
  {
    name: 'init',
    summary: 'Create a small project: a recipe, an environment, a reward, and tests of their laws.',
    load: async () => (await import('./init.js')).initCommand(),
  },
  {
    name: 'doctor',
    summary:
      'Test the installed tensor backends and their speed, and print how to install others. Fails if the default does not work.',
    load: async () => (await import('./doctor.js')).doctorCommand(),
  },
]
