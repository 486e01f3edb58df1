/**
 * For those who serve environments: to OpenEnv, verifiers and OpenRLHF. It needs the package
 * `tandem-rl`.
 *
 * @module
 */
export { type OpenEnvApp, type OpenEnvOptions, openEnvApp } from './openEnv/app.js'
export { type RewardApp, type RewardServerOptions, rewardApp } from './rewards/app.js'
