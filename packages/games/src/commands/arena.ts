/** `tandem arena`: games between players, with statistics and a report. */
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { print, printError } from '@tandem-rl/base/host'
import { filesBelow, liveLocks } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import {
  Command,
  CommandError,
  integerBetween,
  interruption,
  nonNegativeNumber,
  Option,
  orFail,
  readSettingsFile,
  startEngine,
} from 'tandem-rl/command'
import { PLAIN_CHAT } from 'tandem-rl/models'
import { resolvePolicy } from 'tandem-rl/remote'
import { applyOverrides, mergeConfigs } from '../arena/config/overrides.js'
import { type ArenaConfig, arenaConfig, NO_RAY } from '../arena/config/schema.js'
import { type ArenaSetup, setUpArena } from '../arena/config/setup.js'
import { runTournament } from '../arena/matches/tournament.js'
import { type FinishedArena, finishArena, openArena, storedConfig } from '../arena/session/arenaSession.js'
import { arenaBoard, openBoardSink } from './arenaBoard.js'
import { type ArenaDisplay, arenaDisplay } from './arenaDisplay.js'

interface Flags {
  readonly config?: string
  readonly baseConfig?: string
  readonly rayConfig?: string
  readonly backend?: string
  readonly model?: string
  readonly maxTokens?: number
  readonly temperature?: number
  readonly logLevel?: string
  readonly log_level?: string
  readonly override?: readonly string[]
  readonly out?: string
  readonly resume?: string
  readonly json?: true
  readonly printConfig?: true
}

type Value = Readonly<Record<string, unknown>>

/** Reads a configuration of YAML or JSON. Throws CommandError with the path and the reason. */
const readConfig = async (path: string): Promise<Value> => {
  const value = (await readSettingsFile(resolve(path), path)) ?? {}
  if (typeof value !== 'object' || Array.isArray(value)) throw new CommandError(`${path}: expected keys and values`)
  return { ...value }
}

/** The keys of `llm_backend` that flags set. */
const backendOf = ({ backend, model, maxTokens, temperature }: Flags): Value => ({
  ...(backend !== undefined && { inference_backend: backend }),
  ...(model !== undefined && { default_model: model }),
  ...(maxTokens !== undefined && { max_tokens: maxTokens }),
  ...(temperature !== undefined && { temperature }),
})

/** Removes `env_config` where `env_configs` is set, as the latter replaces it. */
const withOneGame = (config: Value): Value => {
  const { env_config: _, ...rest } = config
  return config.env_configs === undefined ? config : rest
}

/** Merges all sources, from low to high: base file, file, flags, overrides. */
const configOf = async (file: string | undefined, flags: Flags, stored: Value): Promise<ArenaConfig> => {
  if (flags.rayConfig !== undefined) throw new CommandError(`--ray-config: ${NO_RAY}`)
  if (file !== undefined && flags.config !== undefined)
    throw new CommandError('give one configuration: as an argument or with --config')
  const paths = [flags.baseConfig, file ?? flags.config].filter((path) => path !== undefined)
  let config = stored
  for (const path of paths) config = mergeConfigs(config, await readConfig(path))
  const level = flags.logLevel ?? flags.log_level
  const backend = backendOf(flags)
  config = mergeConfigs(withOneGame(config), {
    ...(Object.keys(backend).length > 0 && { llm_backend: backend }),
    ...(level !== undefined && { log_level: level }),
  })
  const overridden = applyOverrides(config, flags.override ?? [])
  const checked = E.isLeft(overridden) ? overridden : arenaConfig(overridden.right)
  if (E.isLeft(checked)) throw new CommandError(checked.left.reason)
  return checked.right
}

/** Asks the person at the terminal. Resolves with `null` at the end of the input. */
const askAtTerminal = (): {
  readonly ask: (text: string, signal: AbortSignal) => Promise<string | null>
  readonly close: () => void
} => {
  let terminal: ReturnType<typeof createInterface> | undefined
  let lines: AsyncIterator<string> | undefined
  return {
    ask: async (text, signal) => {
      terminal ??= createInterface({ input: process.stdin })
      lines ??= terminal[Symbol.asyncIterator]()
      signal.addEventListener('abort', () => terminal?.close(), { once: true })
      printError(`\n${text}\n> `)
      const { value, done } = await lines.next()
      return done === true ? null : String(value)
    },
    close: () => terminal?.close(),
  }
}

const needsEngine = ({ agents, models = [], llm_backend }: ArenaConfig): boolean =>
  [
    ...Object.values(agents).flatMap((agent) => [agent, ...(agent.parts ?? [])]),
    ...models.map((model) => ({ model })),
  ].some(
    ({ model }) => (model ?? llm_backend.default_model).startsWith('hf_') || llm_backend.inference_backend === 'hf',
  )

/** Plays, and writes the results, even of an interrupted tournament. */
const play = async (
  setup: ArenaSetup,
  folder: string,
  display: ArenaDisplay,
): Promise<'finished' | 'interrupted' | 'stopped'> => {
  const { config, plans, maxRounds } = setup
  const files = filesBelow(folder)
  const sink = config.tensorboard_logging ? await openBoardSink(`${folder}/tensorboard`) : null
  const arena = await orFail(openArena(folder, config, { files, locks: liveLocks }))
  const { signal, release } = interruption('saving the games so far')
  const board = arenaBoard(sink, arena.log.contents.games.length)
  try {
    const result = await orFail(
      runTournament({
        plans,
        maxRounds,
        signal,
        log: arena.log,
        illegalMove: config.illegal_move,
        parallel: config.parallel_episodes,
        onEvent: (event) => {
          display.show(event)
          board.show(event)
        },
      }),
    )
    display.close()
    await board.close(result.status)
    if (result.status === 'finished') await orFail(files.remove(`${folder}/unfinished.jsonl`))
    const finished: FinishedArena = await orFail(finishArena(folder, { setup, records: result.games, signal }, files))
    display.finish(finished, result)
    return result.failed.length > 0 && result.status === 'finished' ? 'stopped' : result.status
  } finally {
    display.close()
    release()
    await arena.release()
  }
}

const timestamp = (): string => new Date().toISOString().slice(0, 19).replaceAll(':', '-')

const action = async (file: string | undefined, flags: Flags): Promise<void> => {
  if (flags.resume !== undefined && flags.out !== undefined) throw new CommandError('give --out or --resume, not both')
  const stored =
    flags.resume === undefined ? {} : await orFail(storedConfig(resolve(flags.resume), filesBelow(flags.resume)))
  if (stored === null) throw new CommandError(`--resume ${flags.resume}: there is no tournament in this folder`)
  const config = await configOf(file, flags, stored)
  if (flags.printConfig === true) {
    print(`${JSON.stringify(config, undefined, 2)}\n`)
    return
  }
  if (needsEngine(config)) await startEngine({})
  const terminal = askAtTerminal()
  const setup = await orFail(
    setUpArena(config, {
      ask: terminal.ask,
      resolvePolicy: (name, options) => resolvePolicy(name, { ...options, fallbackFormat: PLAIN_CHAT }),
    }),
  )
  const folder = resolve(flags.resume ?? flags.out ?? `runs/arena-${timestamp()}`)
  try {
    const status = await play(setup, folder, arenaDisplay(config, flags.json === true ? 'json' : 'text'))
    if (status !== 'finished') {
      printError(`to continue: tandem arena --resume ${folder}\n`)
      if (status === 'stopped') process.exitCode = 1
    }
  } finally {
    terminal.close()
    await setup.close()
  }
}

/** Makes the command. */
export const arenaCommand = (): Command =>
  new Command('arena')
    .argument('[config]', 'a configuration of YAML or JSON')
    .option('--config <file>', 'the configuration, as an option')
    .option('--base-config <file>', 'a configuration below the other one')
    .addOption(new Option('--ray-config <file>', 'refused: there is no Ray here').hideHelp())
    .addOption(
      new Option('--backend <name>', 'prefix for names of models without one').choices([
        ...['litellm', 'vllm', 'hf', 'openai', 'openrouter', 'hybrid'],
      ]),
    )
    .option('--model <name>', 'the model of agents without one, such as litellm_groq/llama-3.1-8b-instant or hf_gpt2')
    .addOption(new Option('--max-tokens <n>', 'most tokens of a reply (default: 250)').argParser(integerBetween(1)))
    .addOption(new Option('--temperature <x>', 'sampling temperature (default: 0.1)').argParser(nonNegativeNumber))
    .addOption(
      new Option('--log_level <level>', 'DEBUG shows every move, WARNING only problems (default: INFO)').choices([
        ...['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'],
      ]),
    )
    .addOption(new Option('--log-level <level>').hideHelp())
    .option('--override <pairs...>', 'set keys, such as num_episodes=10 agents.player_0.model=hf_gpt2; repeatable')
    .option('--out <folder>', 'folder of the tournament; one that is there is continued (default: runs/arena-TIME)')
    .option('--resume <folder>', 'continue a tournament with its configuration')
    .option('--json', 'print events and results as lines of JSON')
    .option('--print-config', 'print the whole configuration and stop')
    .action(action)
