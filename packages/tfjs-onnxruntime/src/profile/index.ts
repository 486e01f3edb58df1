/**
 * Profiles of programs, for those who look for the time of a step: of each operator of onnxruntime,
 * and of everything between them. In Node.
 *
 * @packageDocumentation
 */
export { GROUPINGS, type Grouping, type StepFigures } from './figures.js'
export { type Profile, type Profiler, profileBackend } from './profiler.js'
