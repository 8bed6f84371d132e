/* When a name is forgotten: two workers make the same calls under one name and let go of its tensor
 * in between, at any moment; the coordinator forgets what nobody holds. It may be restarted, and
 * connections may break. README.md says what is modelled. A lifetime has one tensor, so one number
 * stands for both.
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef ERRORS
#define ERRORS 0
#endif

#define CAPACITY 6
#define OTHER(w) (1 - (w))
#define BIT(w) (1 << (w))
#define HAS(set, w) (((set) >> (w)) & 1)

mtype = { DECLARE, LET_GO, DECLARED, FORGOTTEN };
chan up[2] = [CAPACITY] of { mtype, byte };
chan down[2] = [CAPACITY] of { mtype, byte };

/* Of the workers. */
byte calls[2];
byte lifetime[2];
byte round[2];
bit let_go[2];
bit asks[2];
bit open[2];    /* it has pushed, or asks */
bit well[2];    /* its last call ended so */
byte pushed[2]; /* a lifetime; 0: nothing */
bit got[2];     /* the result of a round that both have pushed */
byte failed_lifetime; /* the round that ended in an error for who was there; there is one */
byte failed_round;
byte failed_call;

/* Of the coordinator. */
byte known;
byte holders;
byte told;
byte next = 1;
bit up_again = 1;
byte reported = 3;
byte restarts = RESTARTS;
byte cuts = CUTS;
byte errors = ERRORS;

inline say(channel, kind, number) {
  assert(nfull(channel));
  channel!kind(number)
}

inline push(w) {
  round[w] = round[w] + 1;
  pushed[w] = lifetime[w];
  if
  :: failed_call != 0 && failed_lifetime == lifetime[w] && failed_round == round[w] ->
    assert(failed_call == calls[w]);
    pushed[w] = 0;
    open[w] = 0;
    well[w] = 0
  :: else
  fi;
  if
  :: pushed[0] != 0 && pushed[0] == pushed[1] && round[0] == round[1] ->
    assert(calls[0] == calls[1]);
    got[0] = 1;
    got[1] = 1;
    pushed[0] = 0;
    pushed[1] = 0
  :: else
  fi
}

inline ask(w) {
  asks[w] = 1;
  say(up[w], DECLARE, lifetime[w])
}

inline begin_call(w) {
  calls[w] = calls[w] + 1;
  open[w] = 1;
  if
  :: lifetime[w] != 0 && (!let_go[w] || MUTANT == 101) -> push(w)
  :: else -> ask(w)
  fi
}

inline hear(w, kind, number) {
  if
  :: kind == DECLARED && asks[w] && (lifetime[w] == 0 || lifetime[w] == number) ->
    lifetime[w] = number;
    let_go[w] = 0;
    asks[w] = 0;
    push(w)
  :: kind == FORGOTTEN && lifetime[w] == number && (let_go[w] || asks[w]) ->
    lifetime[w] = 0;
    let_go[w] = 0;
    if
    :: MUTANT == 102 && asks[w]
    :: else -> round[w] = 0
    fi;
    if
    :: asks[w] -> ask(w)
    :: else
    fi
  :: else
  fi
}

/* A deadline: the other one has not come to the round. */
inline give_up(w) {
  errors--;
  failed_lifetime = lifetime[w];
  failed_round = round[w];
  failed_call = calls[w];
  pushed[w] = 0;
  open[w] = 0;
  well[w] = 0
}

inline repeat(w) {
  if
  :: asks[w] -> say(up[w], DECLARE, lifetime[w])
  :: !asks[w] && let_go[w] -> say(up[w], LET_GO, lifetime[w])
  :: else
  fi
}

inline drain(channel) {
  do
  :: nempty(channel) -> channel?_(_)
  :: empty(channel) -> break
  od
}

inline lose(w) {
  drain(up[w]);
  drain(down[w])
}

inline forget_all(number) {
  if
  :: HAS(told, 0) -> say(down[0], FORGOTTEN, number)
  :: else
  fi;
  if
  :: HAS(told, 1) -> say(down[1], FORGOTTEN, number)
  :: else
  fi;
  told = 0;
  holders = 0;
  known = 0
}

/* To a coordinator that knows nothing yet: what it knows, and what it waits for. */
inline report(w) {
  lose(w);
  reported = reported | BIT(w);
  if
  :: lifetime[w] != 0 && known > lifetime[w] -> say(down[w], FORGOTTEN, lifetime[w])
  :: lifetime[w] != 0 && known <= lifetime[w] ->
    if
    :: known != 0 && known < lifetime[w] -> forget_all(known)
    :: else
    fi;
    known = lifetime[w];
    told = told | BIT(w);
    if
    :: let_go[w] && MUTANT != 103
    :: else -> holders = holders | BIT(w)
    fi
  :: else
  fi;
  repeat(w)
}

proctype Worker(byte w) {
  mtype kind;
  byte number;
end:
  do
  :: atomic { calls[w] < CALLS && !open[w] -> begin_call(w) }
  :: atomic { !open[w] && lifetime[w] != 0 && !let_go[w] && (well[w] || MUTANT == 100) &&
              nfull(up[w]) ->
      let_go[w] = 1;
      say(up[w], LET_GO, lifetime[w]) }
  :: atomic { down[w]?[kind, number] -> down[w]?kind(number);
      hear(w, kind, number) }
  :: atomic { got[w] -> got[w] = 0; open[w] = 0; well[w] = 1 }
  :: atomic { errors > 0 && open[w] && !asks[w] && pushed[w] != 0 && calls[OTHER(w)] < calls[w] &&
              !open[OTHER(w)] -> give_up(w) }
  :: atomic { cuts > 0 && up_again -> cuts--; lose(w); repeat(w) }
  :: atomic { !HAS(reported, w) -> report(w) }
  od
}

inline answer(w, kind, number) {
  if
  :: kind == DECLARE && number != 0 && number != known -> say(down[w], FORGOTTEN, number)
  :: kind == DECLARE && (number == 0 || number == known) ->
    if
    :: known == 0 -> known = next; next++
    :: else
    fi;
    holders = holders | BIT(w);
    told = told | BIT(w);
    say(down[w], DECLARED, known)
  :: kind == LET_GO && number == known ->
    holders = holders & ~BIT(w);
    if
    :: holders == 0 || MUTANT == 104 -> forget_all(number)
    :: else
    fi
  :: kind == LET_GO && number != known -> say(down[w], FORGOTTEN, number)
  fi
}

proctype Coordinator() {
  mtype kind;
  byte number;
end:
  do
  :: atomic { up_again && up[0]?[kind, number] -> up[0]?kind(number); answer(0, kind, number) }
  :: atomic { up_again && up[1]?[kind, number] -> up[1]?kind(number); answer(1, kind, number) }
  :: atomic { restarts > 0 && up_again ->
      restarts--;
      up_again = 0;
      reported = 0;
      known = 0;
      holders = 0;
      told = 0 }
  :: atomic { !up_again && reported == 3 ->
      up_again = 1;
      if
      :: known != 0 && holders == 0 -> forget_all(known)
      :: else
      fi }
  od
}

proctype Check() {
  timeout;
  assert(calls[0] == CALLS && calls[1] == CALLS && !open[0] && !open[1])
}

init {
  atomic { run Coordinator(); run Worker(0); run Worker(1); run Check() }
}
