/** Definitions of recipes: whole ones, and short ones of a task or of the user's agent. */
import { checkOptions, child, type Key, keyFromSeed, orThrow } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import type { z } from 'zod'
import type { Without } from '../../data/needs.js'
import type { HistoryAction, HistoryPrompt } from '../../data/policy.js'
import type { TaskSource } from '../../data/task.js'
import type { Env } from '../../envs/base/env.js'
import type { EnvOfTask } from '../../envs/envOfTask.js'
import { loadPretrained, type Pretrained } from '../../modules/pretrained/pretrained.js'
import { AGENT_RECIPE_OPTIONS, RECIPE_OPTIONS, TASK_RECIPE_OPTIONS } from '../optionKinds.js'
import { type BuildContext, type Recipe, type SettingsSchema, schemaProblems } from '../parts/recipe.js'
import { policySettings } from '../parts/settings.js'
import { type Some, withDefaults } from '../parts/withDefaults.js'
import type { AgentHeldOut, AgentRunParts } from './agentRun.js'
import { defineRun } from './defineRun.js'
import { grpoParts } from './grpoParts.js'
import type { HeldOut, PolicyRunParts, TaskContext } from './modelRun.js'
import type { PolicyRun, PolicyRunSettings, RunPlan } from './policyParts.js'

export interface RecipeOptions<S extends SettingsSchema> {
  readonly name: string
  readonly summary: string
  readonly settings: S
  readonly build: Recipe<S>['build']
  readonly agent?: NonNullable<Recipe<S>['agent']>
  readonly envOfTask?: NonNullable<Recipe<S>['envOfTask']>
  readonly tasks?: NonNullable<Recipe<S>['tasks']>
  /** Settings that may change on resume. Default: none. */
  readonly mayChange?: readonly string[]
}

type Shape = Readonly<Record<string, z.ZodType>>

/** The settings of a short recipe: those of every run, and its own. */
export type RecipeSettings<X extends Shape> = PolicyRunSettings & z.output<z.ZodObject<X>>

/** The arguments of the functions of a short recipe. */
export interface RecipeContext<X extends Shape = Shape> {
  readonly settings: RecipeSettings<X>
  /**
   * The random key of tasks. For training it follows from the seed; for evaluation it is the same
   * in all runs, so that they can be compared.
   */
  readonly key: Key
}

/** Makes the environment of a batch of tasks. */
export type RecipeEnv<X extends Shape = Shape, O extends HistoryPrompt = HistoryPrompt> = (
  tasks: TaskContext,
  context: RecipeContext<X>,
) => Env<O, HistoryAction>

/** An evaluation of a short recipe. */
export type RecipeHeldOut<X extends Shape, O extends HistoryPrompt> = Omit<HeldOut<O>, 'env'> & {
  readonly env: RecipeEnv<X, O>
}

/** The parts of all short recipes. */
interface ShortRecipe<X extends Shape> extends Partial<Pick<RunPlan, 'loss' | 'advantage'>> {
  readonly name: string
  /** One sentence for `tandem train --help`. */
  readonly summary: string
  /** Other defaults of the settings of every run, such as `{ steps: 20 }`. Default: none. */
  readonly defaults?: Some<z.output<typeof policySettings>>
  /** Further settings, each with a default and a description. Default: none. */
  readonly settings?: X
  /** Settings that may change on resume. Default: none. */
  readonly mayChange?: readonly string[]
  /** Makes the start model. Default: the setting `model` names it. */
  readonly model?: (context: RecipeContext<X>, build: BuildContext) => Promise<Pretrained>
}

/** A recipe of tasks: a model is trained in an environment. */
export interface TaskRecipeOptions<X extends Shape, O extends HistoryPrompt>
  extends ShortRecipe<X>,
    Pick<PolicyRunParts<O>, 'signal' | 'metrics' | 'tools' | 'segments'> {
  /** Makes the environment of a task for `tandem serve --env`, without a model. Default: none. */
  readonly envOfTask?: (settings: RecipeSettings<X>) => EnvOfTask
  /** Returns the tasks that clients of `tandem serve --env` select by a seed. Default: none. */
  readonly tasks?: (settings: RecipeSettings<X>) => TaskSource | Promise<TaskSource>
  readonly env: RecipeEnv<X, O>
  /** The evaluations: an environment of other tasks, or several with options. Default: none. */
  readonly heldOut?: RecipeEnv<X, O> | readonly RecipeHeldOut<X, O>[]
}

/** A recipe of the user's own agent. */
export interface AgentRecipeOptions<X extends Shape, T extends Task>
  extends ShortRecipe<X>,
    Pick<AgentRunParts<T>, 'reward' | 'signal' | 'metrics' | 'tries' | 'onFailure'> {
  readonly agent: AgentRunParts<T>['agent'] | ((context: RecipeContext<X>) => AgentRunParts<T>['agent'])
  readonly tasks: (context: RecipeContext<X>) => TaskSource<T>
  /** The evaluations: other tasks, or several with options. Default: none. */
  readonly heldOut?: TaskSource<T> | readonly AgentHeldOut<T>[]
}

/** With or without an option: options that are left out select a member of a union. */
type WithOrWithout<T, K extends keyof T & string> = Required<Pick<T, K>> | Without<K>

type WholeOptions<S extends SettingsSchema> = RecipeOptions<S> &
  WithOrWithout<RecipeOptions<S>, 'agent'> &
  WithOrWithout<RecipeOptions<S>, 'tasks'> &
  Without<'env' | 'heldOut' | 'defaults'>

/**
 * The options of a recipe: a whole one, one of the user's agent, or one of an environment. `What`
 * names those that are required: it is part of messages only.
 */
type Options<What, S extends SettingsSchema, X extends Shape, T extends Task, O extends HistoryPrompt> =
  | WholeOptions<S>
  | (AgentRecipeOptions<X, T> & Without<'build' | 'env'>)
  | (TaskRecipeOptions<X, O> & Without<'build' | 'agent'>)
  | (What & never)

const HELD_OUT_KEY = child(keyFromSeed(0), 'held out')

/** Returns the parts of a run from the options of a short recipe. */
type PartsOf<X extends Shape> = (
  context: RecipeContext<X>,
) => Omit<PolicyRunParts<HistoryPrompt>, 'model'> | Omit<AgentRunParts<Task>, 'model'>

/** Throws TypeError if a setting has no default: `tandem train` must run without any setting. */
const checkDefaults = (name: string, settings: SettingsSchema): void => {
  const parsed = settings.safeParse({})
  if (parsed.success) return
  const problems = schemaProblems(settings, parsed.error, {}).join('; ')
  throw new TypeError(`defineRecipe: every setting of ${name} needs a default: ${problems}`)
}

const wholeRecipe = <S extends SettingsSchema>(options: RecipeOptions<S>): Recipe<S> => {
  checkOptions('defineRecipe', options, RECIPE_OPTIONS)
  checkDefaults(options.name, options.settings)
  const { mayChange = [], ...rest } = options
  return { _tag: 'Recipe', ...rest, mayChange }
}

const shortRecipe = <X extends Shape>(options: ShortRecipe<X>, partsOf: PartsOf<X>): Recipe => {
  const { name, summary, defaults = {}, settings: own = {}, mayChange = [], model: start, loss, advantage } = options
  const base = withDefaults(policySettings, defaults).extend(own)
  const settings: SettingsSchema = start === undefined ? base : base.omit({ model: true })
  checkDefaults(name, settings)
  const build = async (given: unknown, context: BuildContext): Promise<PolicyRun> => {
    const chosen = given as RecipeSettings<X> // by the schema
    const its: RecipeContext<X> = { settings: chosen, key: child(keyFromSeed(chosen.seed), 'tasks') }
    const model =
      start === undefined ? orThrow(await loadPretrained(chosen.model as string)()) : await start(its, context) // in every schema with this default
    const parts = grpoParts(chosen, { model, ...partsOf(its) } as PolicyRunParts<HistoryPrompt>) // or those of an agent
    return defineRun({ ...parts, ...(loss && { loss }), ...(advantage && { advantage }) }, context)
  }
  return { _tag: 'Recipe', name, summary, settings, build, mayChange }
}

/** Returns those of the named options that are present. */
const presentOf = <T extends object, K extends keyof T>(options: T, names: readonly K[]): Pick<T, K> =>
  Object.fromEntries(names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]]))) as Pick<
    T,
    K
  > // by the names

const taskRecipe = <X extends Shape, O extends HistoryPrompt>(options: TaskRecipeOptions<X, O>): Recipe => {
  checkOptions('defineRecipe', options, TASK_RECIPE_OPTIONS)
  const { env, heldOut = [] } = options
  const all = typeof heldOut === 'function' ? [{ env: heldOut }] : heldOut
  const recipe = shortRecipe(
    options,
    (its) =>
      ({
        ...presentOf(options, ['signal', 'metrics', 'tools', 'segments']),
        env: (tasks: TaskContext) => env(tasks, its),
        heldOut: all.map((each) => ({
          ...each,
          env: (tasks: TaskContext) => each.env(tasks, { ...its, key: HELD_OUT_KEY }),
        })),
      }) as unknown as Omit<PolicyRunParts<HistoryPrompt>, 'model'>, // of any state
  )
  return { ...recipe, ...(presentOf(options, ['envOfTask', 'tasks']) as Pick<Recipe, 'envOfTask' | 'tasks'>) } // of these settings
}

const agentRecipe = <X extends Shape, T extends Task>(options: AgentRecipeOptions<X, T>): Recipe => {
  checkOptions('defineRecipe', options, AGENT_RECIPE_OPTIONS)
  const { agent, tasks, heldOut = [] } = options
  return shortRecipe(
    options,
    (its) =>
      ({
        ...presentOf(options, ['reward', 'signal', 'metrics', 'tries', 'onFailure']),
        agent: typeof agent === 'function' ? agent(its) : agent,
        tasks: tasks(its),
        heldOut: 'at' in heldOut && !Array.isArray(heldOut) ? [{ tasks: heldOut }] : heldOut,
      }) as unknown as Omit<AgentRunParts<Task>, 'model'>, // of any task
  )
}

/**
 * Defines a recipe. `tandem train FILE.ts` runs the recipe that the file exports as `recipe`.
 *
 * A short recipe has the `env` in which the model is trained, or the user's own `agent` with its
 * `tasks`. Its settings are those of every run, with other `defaults` and further `settings`. It
 * may replace `loss` and `advantage`. A whole recipe has all its `settings`, and `build`, which
 * makes the run of settings that match them.
 *
 * Flags, `--help`, defaults and the check for unknown keys are derived from the settings.
 *
 * Errors   throws RangeError for unknown options, and TypeError if a setting has no default:
 *          `tandem train` must run without any setting.
 *
 * @example
 * defineRecipe({ name: 'sums', summary: 'Train on sums.', env: (tasks) => SingleTurnEnv({ source: taskList('sums', [{ query: '1 + 1', answer: '2' }]), reward: ({ prediction, answer }) => Number(prediction === answer), ...tasks }) }).name // 'sums'
 */
export const defineRecipe = <
  T extends Task,
  O extends HistoryPrompt,
  S extends SettingsSchema = SettingsSchema,
  const X extends Shape = Readonly<Record<never, never>>,
>(
  options: Options<'name, summary, and env; agent and tasks; or settings and build', S, X, T, O>,
): Recipe<S> => {
  const recipe = (): Recipe => {
    if ('build' in options) return wholeRecipe(options as unknown as RecipeOptions<SettingsSchema>) // by the union of options, as below
    if ('agent' in options) return agentRecipe(options as unknown as AgentRecipeOptions<Shape, Task>)
    return taskRecipe(options as unknown as TaskRecipeOptions<Shape, HistoryPrompt>)
  }
  return recipe() as Recipe<S> // a short recipe has the settings of every run and its own
}
