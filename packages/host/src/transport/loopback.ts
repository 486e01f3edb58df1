/** Addresses of this computer. */

/** Returns `true` for addresses that only this computer can reach. */
export const isLoopback = (host: string): boolean =>
  /^(?:.+\.)?localhost$/.test(host) || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
