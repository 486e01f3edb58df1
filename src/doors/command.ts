/**
 * For those who add a command to `tandem` in a package of their own: what a command is, its errors
 * and its interruption, and the flags of recipes and engines. A package.json names the export with
 * its commands, for example `"tandem": { "commands": "./commands" }`. That module should import
 * this one only inside `load`, because `tandem --help` imports it.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export { Argument, Command, InvalidArgumentError, Option } from 'commander'
export { threadsOfRun } from '../cli/calibration.js'
export type { CommandEntry } from '../cli/commandEntry.js'
export { asCommandError } from '../cli/expectedErrors.js'
export { CommandError, orFail } from '../cli/failure.js'
export { importGuest } from '../cli/guest.js'
export { type EndingSignal, interruptible, interruption, SIGNAL_CODES } from '../cli/interruption.js'
export { locatedModel } from '../cli/locatedModel.js'
export {
  adapterOption,
  checkServerUrl,
  countFor,
  type EngineOptions,
  engineOptions,
  integerBetween,
  MODEL_HELP,
  modelName,
  nonNegativeNumber,
  startEngine,
} from '../cli/options.js'
export {
  type BuildFlags,
  build,
  type Chosen,
  checkFirst,
  choose,
  chosenRecipe,
  memoryOption,
  type Settings,
  say,
  settingsOf,
} from '../cli/plan.js'
export { type QueueFlags, type QueueRun, queueOptions } from '../cli/queue.js'
export type { LoadedRecipe } from '../cli/recipeFile.js'
export { addRecipeFlags } from '../cli/recipeFlags.js'
export { reminded } from '../cli/reminder.js'
export type { OpenTrainer } from '../cli/remoteTraining.js'
export { withResources } from '../cli/resources.js'
export { readSettingsFile } from '../cli/settingsFile.js'
export { type StoredRunFlags, storedRunOpener, storedRunOptions } from '../cli/storedRun.js'
export type { FollowedRun, OpenTracking, Tracking, TrackingFlags } from '../cli/tracking.js'
