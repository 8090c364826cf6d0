/*
 * A model of one purchase: the requests that record and place it, the passes that
 * reconcile it, the sweep, the operator, and the broker. README.md describes what is
 * modelled, and scripts/model.sh checks it.
 *
 * Time is a set of countdowns that one clock decrements together and that stop at zero,
 * so the model has no last moment: what is checked holds however long a purchase lives.
 * The clock may tick between any two steps, so every process can be frozen anywhere for
 * any length of time.
 */

/* ---- Configurations -------------------------------------------------------------- */
/*
 * One search with everything in it would not end, so there is one for each concern. Each
 * is exhaustive. scripts/model.sh reads these lines and checks all of them.
 *
 * configuration passes:      -DLIMITED=0
 * configuration expiry:      -DLIMITED=1
 * configuration pauses:      -DPAUSES=1 -DTIMEOUT=1 -DLEASE=2 -DVALIDITY=3 -DRETENTION=4 -DMAX_AGE=3
 * configuration requests:    -DREQUESTS=2 -DTIMEOUT=1 -DLEASE=2 -DRETENTION=4 -DMAX_AGE=3
 * configuration frozen:      -DWORKERS=2 -DTIMEOUT=1 -DLEASE=1 -DVALIDITY=3 -DRETENTION=3 -DMAX_AGE=2
 * configuration expired:     -DWORKERS=2 -DTIMEOUT=1 -DLEASE=1 -DVALIDITY=1 -DRETENTION=4 -DMAX_AGE=3
 * configuration lookup_only: -DIDEMPOTENT=0 -DREQUESTS=2 -DTIMEOUT=1 -DLEASE=2
 * configuration replay_only: -DLOOKUP=0 -DLIMITED=0 -DPAUSES=1
 * configuration liveness:    -DLIVENESS -DLIMITED=0 -DTIMEOUT=1 -DLEASE=2 -DRETENTION=3 -DMAX_AGE=2
 */

#ifndef REQUESTS
#define REQUESTS 1 /* of the client, all with one key */
#endif
#ifndef WORKERS
#define WORKERS 1
#endif
#ifndef IDEMPOTENT
#define IDEMPOTENT 1 /* the broker honors keys */
#endif
#ifndef LOOKUP
#define LOOKUP 1 /* the broker has a lookup */
#endif
#ifndef LIMITED
#define LIMITED 1 /* the purchase has a valid_until */
#endif
#ifndef PAUSES
#define PAUSES 0 /* operators pause and resume passes */
#endif

/* Durations, in ticks. */
#define SETTLE    1 /* a request may be executed, or stay invisible, this long after its call ended */
#define GRACE     1 /* PENDING for longer than this is interrupted; the first call ends by then */
#ifndef TIMEOUT
#define TIMEOUT   2 /* of a replay; a pause takes effect after the same time */
#endif
#ifndef LEASE
#define LEASE     3
#endif
#ifndef RETENTION
#define RETENTION 5
#endif
#ifndef MAX_AGE
#define MAX_AGE   4
#endif
#ifndef VALIDITY
#define VALIDITY  2
#endif
#define ABSENCES  2 /* lookups that must find nothing */

/* ---- Guards ---------------------------------------------------------------------- */
/*
 * Each guard can be removed on its own: -DWITHOUT_NAME. "breaks n in c" names the property
 * that must then fail and the configuration that must show it. scripts/model.sh reads
 * these lines.
 */

/* Submit. */
#ifndef WITHOUT_UNIQUE_KEY /* breaks 1 in lookup_only */
#define KEY_TAKEN (status != NONE)
#else
#define KEY_TAKEN false
#endif

#ifndef WITHOUT_KNOWN_RECORD /* breaks 5 in expiry */
#define CALLS_IN_DOUBT false
#else
#define CALLS_IN_DOUBT true
#endif

#ifndef WITHOUT_FATE_UNKNOWN /* breaks 6 in expiry */
#define DOUBT_IS_503 0
#else
#define DOUBT_IS_503 1
#endif

#ifndef WITHOUT_ACCEPTED_AFTER_CALL /* breaks 6 in expiry */
#define CALLED_IS_503 0
#else
#define CALLED_IS_503 1
#endif

#ifndef WITHOUT_FIRST_CALL_DEADLINE /* breaks 2 in expiry */
#define FIRST_MAY_SEND(r) (deadline[r] > 0)
#else
#define FIRST_MAY_SEND(r) true
#endif

#ifndef WITHOUT_DEADLINE_FROM_START /* breaks 2 in expiry */
#define RESTART_DEADLINE(r) skip
#else
#define RESTART_DEADLINE(r) deadline[r] = GRACE
#endif

#ifndef WITHOUT_LATE_REFUSAL_CHECK /* breaks 2 in passes */
#define LATE_REFUSAL_COUNTS (!replayed)
#else
#define LATE_REFUSAL_COUNTS true
#endif

#ifndef WITHOUT_LATE_ANSWER_WAITS /* breaks 7 in passes */
#define LATE_ANSWER_SETTLES (lease == 0)
#else
#define LATE_ANSWER_SETTLES true
#endif

/* What an answer proves. */
#ifndef WITHOUT_UNCERTAIN /* breaks 2 in expiry */
#define SILENCE_REJECTS false
#else
#define SILENCE_REJECTS true
#endif

#ifndef WITHOUT_DUPLICATE /* breaks 2 in expiry */
#define DUPLICATE_REJECTS false
#else
#define DUPLICATE_REJECTS true
#endif

#ifndef WITHOUT_CONFIRMED_2XX /* breaks 3 in expiry */
#define ANY_2XX_COMPLETES false
#else
#define ANY_2XX_COMPLETES true
#endif

#ifndef WITHOUT_PROCESSING /* breaks 3 in expiry */
#define PROCESSING_COMPLETES false
#else
#define PROCESSING_COMPLETES true
#endif

#ifndef WITHOUT_REPLAY_4XX /* breaks 2 in expiry */
#define REPLAY_4XX_REJECTS false
#else
#define REPLAY_4XX_REJECTS true
#endif

#ifndef WITHOUT_OWN_4XX /* breaks 10 in expiry */
#define GATEWAY_4XX_COUNTS false
#else
#define GATEWAY_4XX_COUNTS true
#endif

#ifndef WITHOUT_OWN_404 /* breaks 2 in expiry */
#define GATEWAY_404_COUNTS false
#else
#define GATEWAY_404_COUNTS true
#endif

#ifndef WITHOUT_NAMED /* breaks 2 in expiry */
#define WAS_NAMED named
#else
#define WAS_NAMED false
#endif

/* Proof of absence. */
#ifndef WITHOUT_SETTLE /* breaks 2 in expiry */
#define SETTLED (settle == 0)
#else
#define SETTLED true
#endif

#ifndef WITHOUT_SETTLE_FROM_END /* breaks 2 in expiry */
#define CALL_LASTS(n) (n)
#define CALL_ENDED settle = SETTLE
#else
#define CALL_LASTS(n) 0
#define CALL_ENDED skip
#endif

#ifndef WITHOUT_LOOKUP_TIME /* breaks 2 in expiry */
#define SETTLED_AT_LOOKUP settled
#define SPACED_AT_LOOKUP spaced
#else
#define SETTLED_AT_LOOKUP SETTLED
#define SPACED_AT_LOOKUP SPACED
#endif

#ifndef WITHOUT_SPACING /* breaks 2 in expiry */
#define SPACED (gap == 0)
#else
#define SPACED true
#endif

#ifndef WITHOUT_ABSENCE_LOOKUPS /* breaks 2 in expiry */
#define ENOUGH (absences >= ABSENCES)
#else
#define ENOUGH true
#endif

#ifndef WITHOUT_CONSECUTIVE /* breaks 2 in expiry */
#define UNCERTAIN_LOOKUP absences = 0
#else
#define UNCERTAIN_LOOKUP absences = seen
#endif

#ifndef WITHOUT_LOST_LOOKUP_RESTARTS /* breaks 2 in expiry */
#define CLAIM_RESTARTS absences = 0
#else
#define CLAIM_RESTARTS skip
#endif

#ifndef WITHOUT_LOOKUP_DEADLINE /* breaks 2 in expired */
#define LOOKUP_MAY_SEND(w) (deadline[w] > 0)
#else
#define LOOKUP_MAY_SEND(w) true
#endif

#ifndef WITHOUT_COUNT_FROM_LAST_SEND /* breaks 2 in expiry */
#define SENT_AGAIN absences = 0
#else
#define SENT_AGAIN skip
#endif

#ifndef WITHOUT_KEY_EXPIRED /* breaks 2 in expiry */
#define KEY_IS_EXPIRED (retention == 0)
#else
#define KEY_IS_EXPIRED false
#endif

/* What allows a replay, and until when. */
#ifndef WITHOUT_IDEMPOTENT /* breaks 1 in lookup_only */
#define MAY_REPLAY idempotent
#else
#define MAY_REPLAY true
#endif

#ifndef WITHOUT_INTENT_CHECK /* breaks 7 in frozen */
#define MAY_INTEND(w) (owner == w && status == UNKNOWN && lease > 0)
#else
#define MAY_INTEND(w) true
#endif

#ifndef WITHOUT_PAUSE_CHECK /* breaks 9 in pauses */
#define PAUSED paused
#else
#define PAUSED false
#endif

#ifndef WITHOUT_CALL_TIMEOUT /* breaks 9 in pauses */
#define UNTIL_TIMEOUT TIMEOUT
#else
#define UNTIL_TIMEOUT UNLIMITED
#endif

#ifndef WITHOUT_LEASE_LIMIT /* breaks 7 in passes */
#define UNTIL_LEASE lease
#else
#define UNTIL_LEASE UNLIMITED
#endif

#ifndef WITHOUT_RETENTION_LIMIT /* breaks 1 in passes */
#define UNTIL_RETENTION retention
#else
#define UNTIL_RETENTION UNLIMITED
#endif

#ifndef WITHOUT_AGE_LIMIT /* breaks 8 in passes */
#define UNTIL_AGE age
#else
#define UNTIL_AGE UNLIMITED
#endif

#ifndef WITHOUT_VALID_UNTIL /* breaks 8 in expiry */
#define UNTIL_VALID (limited -> validity : UNLIMITED)
#else
#define UNTIL_VALID UNLIMITED
#endif

#ifndef WITHOUT_REPLAY_DEADLINE /* breaks 1 in expiry */
#define REPLAY_MAY_SEND(w) (deadline[w] > 0)
#else
#define REPLAY_MAY_SEND(w) true
#endif

#ifndef WITHOUT_RETENTION_FROM_RECORD /* breaks 1 in passes */
#define REOPEN_RETENTION skip
#else
#define REOPEN_RETENTION retention = RETENTION
#endif

/* Who may write, and when. */
#ifndef WITHOUT_LEASE /* breaks 7 in frozen */
#define CLAIMABLE (lease == 0)
#else
#define CLAIMABLE true
#endif

#ifndef WITHOUT_VERSION_CHECK /* breaks 11 in expiry */
#define STILL_MINE(w) (owner == w && status == UNKNOWN)
#else
#define STILL_MINE(w) true
#endif

#ifndef WITHOUT_OPERATOR_REFUSED /* breaks 7 in expiry */
#define RESOLVABLE ((status == UNKNOWN || status == REVIEW) && lease == 0)
#else
#define RESOLVABLE (status == UNKNOWN || status == REVIEW)
#endif

#ifndef WITHOUT_GRACE /* breaks 7 in expiry */
#define INTERRUPTED (grace == 0)
#else
#define INTERRUPTED true
#endif

#ifndef WITHOUT_PENDING_SWEEP /* breaks 4 in liveness */
#define SWEEPS_PENDING true
#else
#define SWEEPS_PENDING false
#endif

#ifndef WITHOUT_LIMIT_SWEEP /* breaks 4 in liveness */
#define SWEEPS_LIMITS true
#else
#define SWEEPS_LIMITS false
#endif

/* ---- State ----------------------------------------------------------------------- */

#define UNLIMITED 15

/* Status of the row. */
#define NONE      0
#define PENDING   1
#define UNKNOWN   2
#define REVIEW    3
#define COMPLETED 4
#define REJECTED  5
#define FINAL (status >= COMPLETED)
#define OPEN  (status == PENDING || status == UNKNOWN)

/* Answers, and the state of the broker's order: NOTHING, PROCESSING, FILLED, REFUSED. */
#define NOTHING     0
#define PROCESSING  1 /* 2xx that names an order without a final status */
#define FILLED      2 /* 2xx completed */
#define REFUSED     3 /* 2xx rejected */
#define REFUSAL     4 /* 4xx of the broker about the order */
#define DUPLICATE   5 /* 4xx: the key was used before */
#define SILENCE     6 /* timeout, closed socket, 5xx, connection refused */
#define GATEWAY_2XX 7 /* 2xx that does not name this key */
#define GATEWAY_4XX 8 /* 4xx that is not the broker's own, or that concerns the caller */
#define ABSENT      9 /* 404, the broker's own */
#define NAMES_ORDER(a) (a == PROCESSING || a == FILLED || a == REFUSED)

/* What settled the purchase. */
#define BY_REPLY    1
#define BY_LOOKUP   2
#define BY_REPLAY   3
#define BY_CODE     4 /* a replay's 4xx and the absence after it */
#define BY_EXPIRY   5
#define BY_OPERATOR 6

/* Callers: requests 0 and 1 make first calls, workers 2 and 3 replays. */
#define CALLERS 4
#define NOBODY  0

/* The deployment, chosen once. */
bit idempotent, looks_up, limited;

/* The row and the switch. */
byte status, evidence, owner, recorder;
bit named, replay_code, replayed, paused;
byte absences;

/* Countdowns of the row, in database time. */
byte grace, retention, age, validity, lease, settle, gap;

/* Requests: what each caller has on the wire. */
byte started;
bit late_commit[2]; /* a record whose answer was lost and that may still commit */
byte deadline[CALLERS];
bit travelling[CALLERS], in_memory[CALLERS];
byte life[CALLERS];    /* how long it may still be executed, or remain invisible */
byte answer[CALLERS];
bit busy;              /* worker 2 is in a pass */

/* The broker. */
byte order, lies;
byte memory, lie_time;

/* What only the properties see. */
byte executions;
bit unrecorded, wrong_503, sent_final, sent_late, sent_paused, refused, reopened_final;
bit said_503[2];
byte pause_time;

/* ---- Shared steps ---------------------------------------------------------------- */

#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* Gives what matters no more once a purchase is final one value, to save states. */
inline forget() {
	absences = 0; gap = 0; replay_code = 0; settle = 0; replayed = 0; named = 1;
	lease = 0; retention = 0; validity = 0; memory = 0; lies = 0; lie_time = 0
}

/* The one place that writes a status. */
inline become(to, why, by_operator) {
	d_step {
		reopened_final = reopened_final || FINAL || (status == REVIEW && !by_operator);
		status = to;
		evidence = why;
		age = (to == UNKNOWN -> MAX_AGE : 0);
		grace = (to == PENDING -> GRACE : 0);
		owner = NOBODY;
		if
		:: to >= COMPLETED -> forget()
		:: else
		fi
	}
}

/* The statement of request r commits. */
inline commit(r) {
	become(PENDING, 0, false);
	d_step {
		recorder = r + 1;
		retention = RETENTION;
		memory = RETENTION;
		settle = CALL_LASTS(GRACE) + SETTLE;
		wrong_503 = wrong_503 || said_503[r];
		late_commit[0] = 0; late_commit[1] = 0 /* their key is taken from now on */
	}
}

inline say_503(r) {
	d_step { /* in two of its places only without a guard */
		said_503[r] = 1;
		wrong_503 = wrong_503 || (recorder == r + 1)
	}
}

/* The first byte of caller c's request leaves. */
inline send(c) {
	d_step {
		travelling[c] = 1;
		in_memory[c] = (memory > 0);
		life[c] = deadline[c] + SETTLE;
		lies = 0;
		lie_time = 0;
		sent_final = sent_final || FINAL;
		sent_late = sent_late || (limited && validity == 0) || (c >= 2 && (retention == 0 || age == 0));
		sent_paused = sent_paused || (c >= 2 && paused && pause_time == 0)
	}
}

/* Caller c's call is over: with the broker's answer, or with something else. */
inline receive(c, result) {
	if
	:: answer[c] != NOTHING -> result = answer[c]
	:: result = SILENCE
	:: result = GATEWAY_2XX
	:: c >= 2 -> result = GATEWAY_4XX
	fi;
	answer[c] = NOTHING;
	deadline[c] = 0;
	life[c] = MIN(life[c], SETTLE)
}

/* ---- Broker ------------------------------------------------------------------- */

inline execute() {
	if
	:: executions < 2 -> executions++
	:: else
	fi;
	unrecorded = unrecorded || (status == NONE)
}

/* The broker decides one request, at any time within the request's life. */
inline serve(c) {
	travelling[c] = 0;
	if
	:: order == NOTHING ->
		if
		:: order = PROCESSING; answer[c] = order
		:: order = FILLED; answer[c] = order; execute()
		:: order = REFUSED; answer[c] = order; refused = 1
		:: answer[c] = REFUSAL; refused = 1
		:: idempotent -> order = FILLED; answer[c] = DUPLICATE; execute() /* a gateway sent it twice */
		fi
	:: order != NOTHING && idempotent && in_memory[c] ->
		if
		:: answer[c] = order
		:: answer[c] = DUPLICATE
		:: answer[c] = REFUSAL; refused = 1 /* validated before it was deduplicated */
		fi
	:: order != NOTHING && !(idempotent && in_memory[c]) ->
		if
		:: answer[c] = FILLED; order = FILLED; execute()
		:: answer[c] = REFUSAL; refused = 1
		fi
	fi;
	in_memory[c] = 0;
	if
	:: order == NOTHING -> life[c] = 0
	:: else
	fi;
	if
	:: deadline[c] == 0 -> answer[c] = NOTHING
	:: else
	fi
}

/* May a lookup say "not found" though there is an order? */
#define LAGGING (life[0] > 0 || life[1] > 0 || life[2] > 0 || life[3] > 0)
#define MAY_MISS (LAGGING || lies < ABSENCES - 1 || lie_time > 0 || memory == 0 || named)

inline look_up(result) {
	if
	:: order == NOTHING -> result = ABSENT
	:: order != NOTHING -> result = order
	:: order != NOTHING && MAY_MISS ->
		result = ABSENT;
		if
		:: LAGGING || lie_time > 0 || memory == 0 || named
		:: else -> lies++; lie_time = SETTLE
		fi
	:: result = SILENCE
	:: result = (GATEWAY_404_COUNTS -> ABSENT : GATEWAY_4XX)
	:: result = GATEWAY_2XX
	fi;
	if
	:: result != ABSENT -> lies = 0; lie_time = 0
	:: else
	fi
}

proctype Broker() {
end:
	do
	:: atomic { travelling[0] -> serve(0) }
	:: atomic { travelling[1] -> serve(1) }
	:: atomic { travelling[2] -> serve(2) }
	:: atomic { travelling[3] -> serve(3) }
	:: atomic { order == PROCESSING -> order = FILLED; execute() }
	:: atomic { order == PROCESSING -> order = REFUSED; refused = 1 }
	od
}

/* ---- Submit ---------------------------------------------------------------------- */

#define COMPLETES(a) (a == FILLED || (PROCESSING_COMPLETES && a == PROCESSING) || (ANY_2XX_COMPLETES && a == GATEWAY_2XX))
#define FIRST_REJECTS(a) (a == REFUSAL || a == REFUSED || (DUPLICATE_REJECTS && a == DUPLICATE) || (SILENCE_REJECTS && a == SILENCE))

#define REPLAY_REJECTS(a) (a == REFUSED || (REPLAY_4XX_REJECTS && a == REFUSAL) || (DUPLICATE_REJECTS && a == DUPLICATE))
#define REPLAY_CODE(a) (a == REFUSAL || (GATEWAY_4XX_COUNTS && a == GATEWAY_4XX))

/* The first call's answer, on time or late. */
inline store_reply(r, a) {
	named = named || NAMES_ORDER(a);
	if
	:: status == PENDING ->
		if
		:: COMPLETES(a) -> become(COMPLETED, BY_REPLY, false)
		:: FIRST_REJECTS(a) -> become(REJECTED, BY_REPLY, false)
		:: else -> become(UNKNOWN, 0, false); CALL_ENDED
		fi
	:: status == UNKNOWN && LATE_ANSWER_SETTLES && COMPLETES(a) ->
		become(COMPLETED, BY_REPLY, false)
	:: status == UNKNOWN && LATE_ANSWER_SETTLES && FIRST_REJECTS(a) && LATE_REFUSAL_COUNTS ->
		become(REJECTED, BY_REPLY, false)
	:: else /* kept as evidence only */
	fi
}

inline finish_request(r) {
	d_step {
		result = 0; deadline[r] = 0; answer[r] = NOTHING
	};
	goto over
}

/*
 * One request of the client. The second one has the same key and may come at any time.
 * The record is made at once or, if its answer is lost, at any later time or never.
 */
proctype Submit(byte r) {
	byte result;

	atomic {
		started == r && !(limited && validity == 0) -> /* otherwise 400: not in the future */
		started++;
		deadline[r] = MIN(GRACE, UNTIL_VALID);
		if
		:: say_503(r); finish_request(r)
		:: KEY_TAKEN -> finish_request(r) /* repeated: the answer is built from the row */
		:: !KEY_TAKEN ->
			if
			:: status == NONE -> commit(r)
			:: else
			fi
		:: status == NONE -> late_commit[r] = 1; goto doubt
		fi
	}
	goto call;
doubt:
	atomic {
		if
		:: recorder == r + 1 || CALLS_IN_DOUBT
		:: DOUBT_IS_503 -> say_503(r); finish_request(r)
		:: !DOUBT_IS_503 -> finish_request(r) /* 504 */
		fi
	}
call:
	atomic {
		RESTART_DEADLINE(r);
		if
		:: FIRST_MAY_SEND(r) -> send(r)
		:: result = SILENCE; store_reply(r, result); finish_request(r) /* not sent */
		:: finish_request(r) /* crash */
		fi
	}
	atomic {
		if
		:: receive(r, result); store_reply(r, result)
		:: CALLED_IS_503 -> say_503(r) /* the outcome cannot be stored */
		:: true /* crash */
		fi;
		finish_request(r)
	}
over:
	skip
}

/* ---- Pass ------------------------------------------------------------------------ */

/* What the process of a pass knew is gone, because the pass is over or because it crashed. */
inline finish_pass(w) {
	d_step {
		result = 0; settled = 0; spaced = 0; seen = 0; deadline[w] = 0; answer[w] = NOTHING;
		busy = busy && (w == 3)
	};
	goto idle
}

/* Ends a pass that settles nothing. It may have been the last one allowed. */
inline defer(w) {
	if
	:: STILL_MINE(w) ->
		lease = 0;
		if
		:: true
		:: become(REVIEW, 0, false) /* attempts_exhausted */
		fi
	:: else
	fi
}

inline settle_pass(w, to, why) {
	if
	:: STILL_MINE(w) -> lease = 0; become(to, why, false)
	:: else
	fi
}

inline conclude_lookup(w, a) {
	named = named || NAMES_ORDER(a);
	if
	:: COMPLETES(a) -> settle_pass(w, COMPLETED, BY_LOOKUP)
	:: a == REFUSED -> settle_pass(w, REJECTED, BY_LOOKUP)
	:: else ->
		if
		:: STILL_MINE(w) -> UNCERTAIN_LOOKUP
		:: else
		fi;
		defer(w)
	fi;
	finish_pass(w)
}

#define EXPIRED (limited && validity == 0)

/* A "not found": ignored, counted, believed, or answered by a replay. */
inline weigh_absence(w) {
	if
	:: WAS_NAMED -> settle_pass(w, REVIEW, 0); finish_pass(w) /* mismatch */
	:: else
	fi;
	if
	:: !(SETTLED_AT_LOOKUP) -> defer(w); finish_pass(w)
	:: else
	fi;
	seen = (SPACED_AT_LOOKUP -> MIN(seen + 1, ABSENCES) : seen);
	if
	:: STILL_MINE(w) ->
		absences = seen;
		gap = (SPACED_AT_LOOKUP -> SETTLE : gap)
	:: else
	fi;
	if
	:: KEY_IS_EXPIRED && ENOUGH -> settle_pass(w, REVIEW, 0); finish_pass(w)
	:: !KEY_IS_EXPIRED && replay_code && ENOUGH -> settle_pass(w, REJECTED, BY_CODE); finish_pass(w)
	:: !KEY_IS_EXPIRED && !replay_code && EXPIRED && ENOUGH -> settle_pass(w, REJECTED, BY_EXPIRY); finish_pass(w)
	:: (KEY_IS_EXPIRED || replay_code || EXPIRED) && !ENOUGH -> defer(w); finish_pass(w)
	:: else
	fi
}

/* Records that a replay will be sent, and until when it may leave. */
inline intend(w) {
	d_step {
		result = 0; settled = 0; spaced = 0; seen = 0;
		deadline[w] = MIN(UNTIL_TIMEOUT, MIN(UNTIL_LEASE, MIN(UNTIL_RETENTION, MIN(UNTIL_AGE, UNTIL_VALID))))
	};
	if
	:: MAY_INTEND(w) && MAY_REPLAY && !PAUSED && deadline[w] > 0 ->
		d_step {
			settle = CALL_LASTS(deadline[w]) + SETTLE;
			replayed = 1;
			replay_code = 0;
			SENT_AGAIN
		}
	:: else -> defer(w); finish_pass(w)
	fi
}

inline conclude_replay(w, a) {
	named = named || NAMES_ORDER(a);
	if
	:: STILL_MINE(w) -> CALL_ENDED
	:: else
	fi;
	if
	:: COMPLETES(a) -> settle_pass(w, COMPLETED, BY_REPLAY)
	:: REPLAY_REJECTS(a) -> settle_pass(w, REJECTED, BY_REPLAY)
	:: else ->
		if
		:: STILL_MINE(w) -> replay_code = looks_up && REPLAY_CODE(a)
		:: else
		fi;
		defer(w)
	fi;
	finish_pass(w)
}

proctype Worker(byte w) {
	byte result;
	bit settled, spaced;
	byte seen; /* absences so far; until the pass ends, the row has none */

idle:
	atomic {
		/* Worker 3 claims only while worker 2 is busy: they are interchangeable. */
		status == UNKNOWN && CLAIMABLE && (w == 2 || busy) && (w == 3 || !busy) ->
		owner = w;
		lease = LEASE;
		deadline[w] = LEASE;
		settled = SETTLED;
		spaced = SETTLED && SPACED;
		seen = absences;
		CLAIM_RESTARTS;
		busy = busy || (w == 2)
	}
	atomic {
		if
		:: !looks_up
		:: looks_up && LOOKUP_MAY_SEND(w) -> look_up(result)
		:: looks_up && !LOOKUP_MAY_SEND(w) -> result = SILENCE
		:: finish_pass(w) /* crash */
		fi;
		deadline[w] = 0;
		settled = settled && result == ABSENT;
		spaced = spaced && result == ABSENT
	}
	atomic {
		if
		:: !looks_up -> intend(w)
		:: looks_up && result == ABSENT -> weigh_absence(w); intend(w)
		:: looks_up && result != ABSENT -> conclude_lookup(w, result)
		:: finish_pass(w) /* crash */
		fi
	}
	atomic {
		if
		:: REPLAY_MAY_SEND(w) -> send(w)
		:: result = SILENCE; conclude_replay(w, result) /* not sent */
		:: finish_pass(w) /* crash */
		fi
	}
	atomic {
		if
		:: receive(w, result); conclude_replay(w, result)
		:: finish_pass(w) /* crash */
		fi
	}
}

/* ---- Sweep and operator ---------------------------------------------------------- */

proctype Sweep() {
end:
	do
	:: atomic { SWEEPS_PENDING && status == PENDING && INTERRUPTED -> become(UNKNOWN, 0, false) }
	:: atomic { SWEEPS_LIMITS && status == UNKNOWN && age == 0 -> become(REVIEW, 0, false) }
	od
}

proctype Operator() {
end:
	do
	:: atomic { RESOLVABLE -> become(REJECTED, BY_OPERATOR, true) } /* or COMPLETED: no property differs */
	:: atomic { status == REVIEW -> become(UNKNOWN, 0, true); REOPEN_RETENTION }
	:: atomic { PAUSES && !paused -> paused = 1; pause_time = TIMEOUT }
	:: atomic { paused -> paused = 0; pause_time = 0 }
	od
}

/* ---- Database and clock ------------------------------------------------------- */

/* A record whose answer was lost commits after all. */
proctype Database() {
end:
	do
	:: atomic { late_commit[0] -> commit(0) }
	:: atomic { late_commit[1] -> commit(1) }
	od
}

#define COUNT_DOWN(t) t = (t > 0 -> t - 1 : 0)
#define COUNT_DOWN_CALLER(c) \
	COUNT_DOWN(deadline[c]); COUNT_DOWN(life[c]); \
	travelling[c] = travelling[c] && life[c] > 0; in_memory[c] = in_memory[c] && travelling[c]

proctype Clock() {
end:
	do
	:: d_step {
		COUNT_DOWN(grace); COUNT_DOWN(retention); COUNT_DOWN(age); COUNT_DOWN(validity);
		COUNT_DOWN(lease); COUNT_DOWN(settle); COUNT_DOWN(gap);
		COUNT_DOWN(memory); COUNT_DOWN(lie_time); COUNT_DOWN(pause_time);
		COUNT_DOWN_CALLER(0); COUNT_DOWN_CALLER(1); COUNT_DOWN_CALLER(2); COUNT_DOWN_CALLER(3)
	}
	od
}

/* ---- Properties ------------------------------------------------------------------ */

/*
 * 1   The broker never executes the purchase twice.
 * 2   It is never REJECTED though executed, unless an operator rejected it.
 * 3   It is never COMPLETED though not executed, unless an operator completed it.
 * 4   Once recorded, it does not stay PENDING or UNKNOWN (liveness, see never_forgotten).
 * 5   Nothing is executed without a record.
 * 6   A request that was answered 503 never leads to a record or a call.
 * 7   Nothing is sent for a final purchase, an operator's decision included.
 * 8   No replay leaves after the key retention or the maximum age, nothing after valid_until.
 * 9   No replay leaves once a pause has taken effect.
 * 10  It is REJECTED only if the broker refused it, it expired, or an operator rejected it.
 * 11  A final status never changes, and only an operator ends a review.
 */

#define BY_HOLDFAST (evidence != BY_OPERATOR)

#ifndef ONLY
#define BROKEN(n, holds) (!(holds))
#else
#define BROKEN(n, holds) (ONLY == n && !(holds)) /* check this property alone */
#endif

#define ONE_EXECUTION     (executions < 2)
#define REJECTED_IS_TRUE  (!(status == REJECTED && BY_HOLDFAST && executions > 0))
#define COMPLETED_IS_TRUE (!(status == COMPLETED && BY_HOLDFAST && executions == 0))

#define REJECTED_WITH_CAUSE (!(status == REJECTED && BY_HOLDFAST && evidence != BY_EXPIRY && !refused))

proctype Monitor() {
	if
	:: BROKEN(1, ONE_EXECUTION) -> assert(ONE_EXECUTION)
	:: BROKEN(2, REJECTED_IS_TRUE) -> assert(REJECTED_IS_TRUE)
	:: BROKEN(3, COMPLETED_IS_TRUE) -> assert(COMPLETED_IS_TRUE)
	:: BROKEN(5, !unrecorded) -> assert(!unrecorded)
	:: BROKEN(6, !wrong_503) -> assert(!wrong_503)
	:: BROKEN(7, !sent_final) -> assert(!sent_final)
	:: BROKEN(8, !sent_late) -> assert(!sent_late)
	:: BROKEN(9, !sent_paused) -> assert(!sent_paused)
	:: BROKEN(10, REJECTED_WITH_CAUSE) -> assert(REJECTED_WITH_CAUSE)
	:: BROKEN(11, !reopened_final) -> assert(!reopened_final)
	fi
}

#ifdef LIVENESS
ltl never_forgotten { [] (OPEN -> <> !OPEN) }
#endif

init {
	atomic {
		idempotent = IDEMPOTENT;
		looks_up = LOOKUP;
		limited = LIMITED;
		validity = LIMITED * VALIDITY;
		run Clock(); run Database(); run Broker(); run Sweep(); run Operator();
		run Monitor(); run Worker(2); run Submit(0);
#if WORKERS > 1
		run Worker(3);
#endif
#if REQUESTS > 1
		run Submit(1)
#endif
	}
}
